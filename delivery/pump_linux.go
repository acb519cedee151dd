package delivery

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const epollAdd = unix.EPOLL_CTL_ADD

// writePieces writes as much as the socket takes without blocking: write(2) for
// one piece, writev(2) for more. n < the total without an error: it is full.
func writePieces(raw syscall.RawConn, list [][]byte) (n int, err error) {
	cerr := raw.Write(func(fd uintptr) bool {
		n, err = writeFD(int(fd), list)
		return true // whatever came of it: waiting is the waiter's
	})
	if cerr != nil {
		return 0, cerr
	}
	return n, err
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
