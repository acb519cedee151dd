package delivery

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ear watches, for all connections whose client has nothing to say, whether the
// client is gone (epoll(7)): so that such a connection costs no goroutine.
type ear struct {
	epoll *os.File // the epoll instance
	wake  *os.File // an eventfd: written to, it ends run

	// mu guards the following. A slot's number and turn are the data of its
	// events, so that an event that comes late is not taken for a newer
	// connection's.
	mu    sync.Mutex
	slots []earSlot
	free  []int32
}

type earSlot struct {
	outlet *Outlet
	turn   int32
}

// newEar makes an ear; nil when the system has none to give, and then every
// connection has a goroutine.
func newEar() *ear {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	ev, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(ep)
		return nil
	}
	e := &ear{epoll: os.NewFile(uintptr(ep), "epoll"), wake: os.NewFile(uintptr(ev), "eventfd")}
	if unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, ev, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1}) != nil {
		_ = e.epoll.Close()
		_ = e.wake.Close()
		return nil
	}
	return e
}

// listen watches an outlet's connection; false when it cannot.
func (e *ear) listen(o *Outlet) bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	var slot int32
	if n := len(e.free); n > 0 {
		slot = e.free[n-1]
		e.free = e.free[:n-1]
	} else {
		slot = int32(len(e.slots))
		e.slots = append(e.slots, earSlot{})
	}
	s := &e.slots[slot]
	s.outlet = o
	s.turn++
	o.slot = slot
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: slot, Pad: s.turn}
	e.mu.Unlock()

	var err error
	cerr := o.raw.Control(func(fd uintptr) {
		err = unix.EpollCtl(int(e.epoll.Fd()), unix.EPOLL_CTL_ADD, int(fd), &event)
	})
	if err != nil || cerr != nil {
		e.forget(o)
		return false
	}
	return true
}

// forget frees an outlet's slot. Its descriptor leaves the epoll instance by
// being closed.
func (e *ear) forget(o *Outlet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := &e.slots[o.slot]; s.outlet == o {
		s.outlet = nil
		e.free = append(e.free, o.slot)
	}
}

// run hears events until close.
func (e *ear) run() {
	events := make([]unix.EpollEvent, 256)
	scrap := make([]byte, 4096)
	ep := int(e.epoll.Fd())
	for {
		n, err := unix.EpollWait(ep, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			if ev.Fd < 0 {
				return
			}
			e.mu.Lock()
			s := e.slots[ev.Fd]
			e.mu.Unlock()
			if s.outlet != nil && s.turn == ev.Pad {
				s.outlet.overhear(scrap)
			}
		}
	}
}

// close ends run.
func (e *ear) close() {
	if e != nil {
		_, _ = e.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// overhear throws away what a client sent that has nothing to say, and shuts the
// connection when the client is gone.
func (o *Outlet) overhear(scrap []byte) {
	gone := false
	err := o.raw.Read(func(fd uintptr) bool {
		n, err := unix.Read(int(fd), scrap)
		if n > 0 {
			o.asked.Store(0)
		}
		gone = n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
		return true
	})
	if gone || err != nil {
		o.shut()
	}
}
