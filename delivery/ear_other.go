//go:build !linux

package delivery

import (
	"net"
	"sync"
	"syscall"
)

// ear is there where there are pumps.
type ear struct{}

type place struct{ raw syscall.RawConn }

const epollAdd = 0

func newEar() *ear                     { return nil }
func (*ear) enter(*Outlet, *place)     {}
func (*ear) forget(*place)             {}
func (*ear) run(*sync.WaitGroup)       {}
func (*ear) stop()                     {}
func (*ear) close()                    {}
func (*Outlet) hear(*ear, []byte, int) {}

// Watch may be used when [Broker.CanPump].
func (b *Broker) Watch(*net.TCPConn, func()) (stop func()) { return func() {} }
