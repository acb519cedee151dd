//go:build !linux

package delivery

// ear is there where there is a pump.
type ear struct{}

func newEar() *ear               { return nil }
func (*ear) listen(*Outlet) bool { return false }
func (*ear) forget(*Outlet)      {}
func (*ear) run()                {}
func (*ear) close()              {}
