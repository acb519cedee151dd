package delivery

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const epollAdd = unix.EPOLL_CTL_ADD

// write writes as much of the pieces as the socket takes without blocking:
// write(2) for one piece, writev(2) for more. n < the total without an error: it
// is full.
func (w *writing) write(raw syscall.RawConn) (n int, err error) {
	if w.call == nil { // once: a closure for each write would be garbage
		w.call = func(fd uintptr) bool {
			w.n, w.err = writeFD(int(fd), w.list)
			return true // whatever came of it: waiting is the waiter's
		}
	}
	w.n, w.err = 0, nil
	if err := raw.Write(w.call); err != nil {
		return 0, err
	}
	return w.n, w.err
}

func writeFD(fd int, list [][]byte) (total int, err error) {
	for len(list) > 0 {
		k := min(len(list), outletPieces)
		want := 0
		for _, b := range list[:k] {
			want += len(b)
		}
		var n int
		if k == 1 {
			n, err = unix.Write(fd, list[0])
		} else {
			n, err = unix.Writev(fd, list[:k])
		}
		switch err {
		case nil:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return total, nil
		default:
			return total, err
		}
		total += n
		if n < want {
			return total, nil
		}
		list = list[k:]
	}
	return total, nil
}
