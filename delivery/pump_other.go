//go:build !linux

package delivery

import (
	"errors"
	"syscall"
)

// canPump: on other systems every connection is served by its handler.
const canPump = false

func writePieces(syscall.RawConn, [][]byte) (int, error) {
	return 0, errors.ErrUnsupported
}
