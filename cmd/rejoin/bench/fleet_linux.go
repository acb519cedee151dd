package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// epollReader reads all its connections on one thread, with one buffer.
type epollReader struct {
	*shared
	clients []*client
	fds     []int   // of the client with that index, -1 for none
	due     []int64 // clients[i].due, kept close together: it is swept each tick
	left    int     // clients not over
	ep      int
	buf     []byte
	cpu     atomic.Int64 // ns of this thread
}

func newFleetOf(s *shared) *fleet {
	// Half of the cores: the rest is for the publishers, and on one machine for
	// the server.
	return newFleet(s, max(1, min(runtime.NumCPU()/2, s.opts.Subscribers)), newEpollReader)
}

func newEpollReader(s *shared, clients []*client) reader {
	r := &epollReader{shared: s, clients: clients, left: len(clients), buf: make([]byte, 256<<10)}
	for _, k := range clients {
		r.fds = append(r.fds, -1)
		r.due = append(r.due, k.due)
	}
	return r
}

func (r *epollReader) busy() time.Duration { return time.Duration(r.cpu.Load()) }

func (r *epollReader) drive() (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if r.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	defer unix.Close(r.ep)
	defer r.closeAll()

	var (
		ready = make([]unix.EpollEvent, 1024)
		ph    phases
		swept int64
	)
	for r.left > 0 {
		n, err := unix.EpollWait(r.ep, ready, int(tick/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, e := range ready[:max(n, 0)] {
			r.onReady(int(e.Fd), e.Events)
		}
		now := r.now()
		if now-swept < int64(tick) {
			continue
		}
		swept = now
		if ph.turn(r.shared, now, r.clients...) {
			for i, k := range r.clients {
				r.after(i, k)
			}
		}
		for i, due := range r.due {
			if due <= now {
				r.onDue(i, now)
			}
		}
		r.cpu.Store(threadCPU())
	}
	return nil
}

// threadCPU is the CPU time of the calling thread in ns.
func threadCPU() int64 {
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &use) != nil {
		return 0
	}
	return use.Utime.Nano() + use.Stime.Nano()
}

// after takes over what a call of the client changed.
func (r *epollReader) after(i int, k *client) {
	r.due[i] = k.due
	if k.state == over && r.fds[i] != gone {
		r.fds[i] = gone
		r.left--
	}
}

// gone marks a client that is over.
const gone = -2

func (r *epollReader) onDue(i int, now int64) {
	k := r.clients[i]
	switch k.state {
	case waiting:
		k.onOpen(now)
		r.due[i] = k.due
		if err := r.dial(i, k); err != nil {
			r.close(i, k, err)
		}
	case open:
		r.close(i, k, k.why)
	}
}

func (r *epollReader) close(i int, k *client, why error) {
	if r.fds[i] >= 0 {
		_ = unix.Close(r.fds[i]) // also leaves epoll; there is nothing to do about an error
		r.fds[i] = -1
	}
	k.onClose(r.now(), why)
	r.after(i, k)
}

func (r *epollReader) closeAll() {
	for _, fd := range r.fds {
		if fd >= 0 {
			_ = unix.Close(fd) // as above
		}
	}
}

// connects counts the connections this process dialled, see source.
var connects atomic.Int64

// source is the local address for the next connection to a loopback server. A
// pair of addresses has some 28,000 ports, and each stays taken for a minute
// after its connection was closed: so each 16,000 connections get an address.
func source() [4]byte {
	n := connects.Add(1) / 16000
	return [4]byte{127, 0, byte(1 + n/250%250), byte(1 + n%250)}
}

// dial begins the client's next connection.
func (r *epollReader) dial(i int, k *client) error {
	server := k.server().addr
	addr := server.Addr()
	family := unix.AF_INET
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: int(server.Port())}
	if addr.Is4() {
		to.(*unix.SockaddrInet4).Addr = addr.As4()
	} else {
		family = unix.AF_INET6
		to = &unix.SockaddrInet6{Port: int(server.Port()), Addr: addr.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	r.fds[i] = fd
	if addr.Is4() && addr.IsLoopback() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) // without it bind takes a port too early, and still works
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: source()}); err != nil {
			return os.NewSyscallError("bind", err)
		}
	}
	if k.slow {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, slowBuffer) // a larger buffer only fills later
	}
	if err := unix.Connect(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return os.NewSyscallError("connect", err)
	}
	return r.watch(unix.EPOLL_CTL_ADD, i, unix.EPOLLOUT)
}

func (r *epollReader) watch(op, i int, events uint32) error {
	err := unix.EpollCtl(r.ep, op, r.fds[i], &unix.EpollEvent{Events: events, Fd: int32(i)})
	return os.NewSyscallError("epoll_ctl", err)
}

func (r *epollReader) onReady(i int, events uint32) {
	k := r.clients[i]
	if r.fds[i] < 0 {
		return
	}
	var err error
	switch {
	case !k.sent:
		err = r.send(i, k)
	case k.slow:
		err = errEnded // only an end was watched for
	default:
		err = r.read(i, k)
	}
	if err != nil {
		r.close(i, k, err)
		return
	}
	r.after(i, k)
}

// send writes the request once the connection stands.
func (r *epollReader) send(i int, k *client) error {
	if code, err := unix.GetsockoptInt(r.fds[i], unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
		if err == nil {
			err = unix.Errno(code)
		}
		return os.NewSyscallError("connect", err)
	}
	if err := r.write(i, k.request()); err != nil {
		return err
	}
	k.onSent(r.now())
	if k.slow {
		return r.watch(unix.EPOLL_CTL_MOD, i, unix.EPOLLRDHUP)
	}
	return r.watch(unix.EPOLL_CTL_MOD, i, unix.EPOLLIN)
}

// write writes a request or an answer, of which a socket's buffer holds many.
func (r *epollReader) write(i int, b []byte) error {
	n, err := unix.Write(r.fds[i], b)
	if err != nil {
		return os.NewSyscallError("write", err)
	}
	if n < len(b) {
		return fmt.Errorf("write: %w", io.ErrShortWrite)
	}
	return nil
}

func (r *epollReader) read(i int, k *client) error {
	n, err := unix.Read(r.fds[i], r.buf)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return os.NewSyscallError("read", err)
	case n == 0:
		return errClosed
	}
	if err := k.onBytes(r.buf[:n], r.now()); err != nil || len(k.out) == 0 {
		return err
	}
	err = r.write(i, k.out)
	k.out = k.out[:0]
	return err
}

var errClosed = errors.New("the server closed the connection")
