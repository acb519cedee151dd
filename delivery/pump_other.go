//go:build !linux

package delivery

import (
	"errors"
	"syscall"
)

func writePieces(syscall.RawConn, [][]byte) (int, error) {
	return 0, errors.ErrUnsupported
}
