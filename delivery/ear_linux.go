package delivery

import (
	"net"
	"os"
	"sync"
	"syscall"

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
	heard heard
	turn  int32
}

// heard is a connection that an ear listens to.
type heard interface {
	// hear takes what came, with a buffer to read into, and listens again with op.
	hear(e *ear, buf []byte, op int)
	// mute: hear never blocks.
	mute() bool
}

// place is a connection's place in an ear.
type place struct {
	raw        syscall.RawConn
	slot, turn int32
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

// enter gives a connection its place.
func (e *ear) enter(h heard, p *place) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.free); n > 0 {
		p.slot = e.free[n-1]
		e.free = e.free[:n-1]
	} else {
		p.slot = int32(len(e.slots))
		e.slots = append(e.slots, earSlot{})
	}
	s := &e.slots[p.slot]
	s.heard = h
	s.turn++
	p.turn = s.turn
}

// listen waits for one event of a connection, with EPOLL_CTL_ADD the first time
// and EPOLL_CTL_MOD after; false when the connection is closed.
func (e *ear) listen(p *place, op int) bool {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: p.slot, Pad: p.turn}
	var err error
	cerr := p.raw.Control(func(fd uintptr) {
		err = unix.EpollCtl(int(e.epoll.Fd()), op, int(fd), &event)
	})
	return err == nil && cerr == nil
}

// forget frees a connection's place. Its descriptor leaves the epoll instance by
// being closed, or by leave.
func (e *ear) forget(p *place) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := &e.slots[p.slot]; s.turn == p.turn && s.heard != nil {
		s.heard = nil
		e.free = append(e.free, p.slot)
	}
}

// leave takes a connection that stays open out of the ear.
func (e *ear) leave(p *place) {
	_ = p.raw.Control(func(fd uintptr) {
		_ = unix.EpollCtl(int(e.epoll.Fd()), unix.EPOLL_CTL_DEL, int(fd), nil)
	})
	e.forget(p)
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
			case s.heard == nil || s.turn != ev.Pad:
			case s.heard.mute():
				s.heard.hear(e, scrap, unix.EPOLL_CTL_MOD)
			default:
				wg.Go(func() {
					buf := hearBuffers.Get().(*[hearBytes]byte)
					defer hearBuffers.Put(buf)
					s.heard.hear(e, buf[:], unix.EPOLL_CTL_MOD)
				})
			}
		}
	}
}

// hearBytes is what is read at a time: clients send little.
const hearBytes = 1024

// hearReads is how often one connection is read in its turn.
const hearReads = 16

var hearBuffers = sync.Pool{New: func() any { return new([hearBytes]byte) }}

// stop ends run.
func (e *ear) stop() { _, _ = e.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// close gives the descriptors back.
func (e *ear) close() {
	_ = e.epoll.Close()
	_ = e.wake.Close()
}

// hear takes what the client sent, until there is no more for now, or it is gone,
// or the others are to have their turn.
func (o *Outlet) hear(e *ear, buf []byte, op int) {
	for reads := 0; ; reads++ {
		if reads == hearReads {
			if !e.listen(&o.place, op) {
				o.shut()
			}
			return
		}
		n, err := readNow(o.raw, buf, 0)
		switch {
		case err == unix.EAGAIN:
			if !e.listen(&o.place, op) {
				o.shut()
			}
			return
		case err != nil || n == 0:
			o.shut()
			return
		}
		o.receive(buf[:n])
	}
}

func (o *Outlet) mute() bool { return o.o.Receive == nil }

// readNow reads without blocking: EAGAIN when nothing has come.
func readNow(raw syscall.RawConn, buf []byte, flags int) (n int, err error) {
	for {
		cerr := raw.Read(func(fd uintptr) bool {
			n, _, err = unix.Recvfrom(int(fd), buf, flags)
			return true
		})
		if cerr != nil {
			return 0, cerr
		}
		if err != unix.EINTR {
			return n, err
		}
	}
}

// watch waits for a client to go, and takes nothing of what it sends.
type watch struct {
	place
	gone func()
}

func (w *watch) mute() bool { return true }

func (w *watch) hear(e *ear, buf []byte, op int) {
	n, err := readNow(w.raw, buf[:1], unix.MSG_PEEK)
	switch {
	case err == unix.EAGAIN:
		if !e.listen(&w.place, op) {
			w.gone()
		}
	case err != nil || n == 0:
		w.gone()
	}
	// Else it has sent the next request already, and is not watched further.
}

// Watch calls gone, at most once and from another goroutine, if the client of a
// connection goes while it is watched; what it sends stays unread. stop ends
// the watch. It may be used when [Broker.CanPump].
func (b *Broker) Watch(conn *net.TCPConn, gone func()) (stop func()) {
	raw, err := conn.SyscallConn()
	if err != nil {
		gone()
		return func() {}
	}
	w := &watch{place: place{raw: raw}, gone: sync.OnceFunc(gone)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		gone()
		return func() {}
	}
	b.startPumps()
	b.pumps.ear.enter(w, &w.place)
	if !b.pumps.ear.listen(&w.place, unix.EPOLL_CTL_ADD) {
		w.gone()
	}
	return func() { b.pumps.ear.leave(&w.place) }
}
