//go:build !linux

package delivery

import "sync"

// ear is there where there are pumps.
type ear struct{}

const epollAdd = 0

func newEar() *ear                     { return nil }
func (*ear) enter(*Outlet)             {}
func (*ear) forget(*Outlet)            {}
func (*ear) run(*sync.WaitGroup)       {}
func (*ear) stop()                     {}
func (*ear) close()                    {}
func (*Outlet) hear(*ear, []byte, int) {}
