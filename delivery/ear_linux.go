package delivery

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ear hears for all connections of the pumps what their clients send, and that
// they are gone (epoll(7)), so that a quiet connection costs no goroutine.
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

// newEar makes an ear; nil when the system has none to give.
func newEar() *ear {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	ev, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(ep)
		return nil
	}
	e := &ear{epoll: os.NewFile(uintptr(ep), "epoll"), wake: os.NewFile(uintptr(ev), "eventfd")}
	if unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, ev, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1}) != nil {
		e.close()
		return nil
	}
	return e
}

// enter gives an outlet its slot.
func (e *ear) enter(o *Outlet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.free); n > 0 {
		o.slot = e.free[n-1]
		e.free = e.free[:n-1]
	} else {
		o.slot = int32(len(e.slots))
		e.slots = append(e.slots, earSlot{})
	}
	s := &e.slots[o.slot]
	s.outlet = o
	s.turn++
	o.turn = s.turn
}

// listen watches an outlet's connection for one event, with EPOLL_CTL_ADD the
// first time and EPOLL_CTL_MOD after.
func (e *ear) listen(o *Outlet, op int) {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: o.slot, Pad: o.turn}
	var err error
	cerr := o.raw.Control(func(fd uintptr) {
		err = unix.EpollCtl(int(e.epoll.Fd()), op, int(fd), &event)
	})
	if err != nil || cerr != nil {
		o.shut()
	}
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

// run hears events until stop. A client that has something to say gets a
// goroutine for as long as that takes.
func (e *ear) run(wg *sync.WaitGroup) {
	events := make([]unix.EpollEvent, 256)
	scrap := make([]byte, hearBytes)
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
			switch {
			case s.outlet == nil || s.turn != ev.Pad:
			case s.outlet.o.Receive == nil:
				s.outlet.hear(e, scrap, unix.EPOLL_CTL_MOD)
			default:
				wg.Go(func() {
					buf := hearBuffers.Get().(*[hearBytes]byte)
					defer hearBuffers.Put(buf)
					s.outlet.hear(e, buf[:], unix.EPOLL_CTL_MOD)
				})
			}
		}
	}
}

// hearBytes is what is read at a time: clients send little.
const hearBytes = 1024

var hearBuffers = sync.Pool{New: func() any { return new([hearBytes]byte) }}

// stop ends run.
func (e *ear) stop() { _, _ = e.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// close gives the descriptors back.
func (e *ear) close() {
	_ = e.epoll.Close()
	_ = e.wake.Close()
}

// hear takes what the client sent, until there is no more for now or it is gone.
func (o *Outlet) hear(e *ear, buf []byte, op int) {
	for {
		var n int
		var err error
		cerr := o.raw.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buf)
			return true
		})
		switch {
		case cerr != nil:
			o.shut()
			return
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			e.listen(o, op)
			return
		case err != nil || n == 0:
			o.shut()
			return
		default:
			o.receive(buf[:n])
		}
	}
}
