//go:build !linux

package delivery

import (
	"errors"
	"syscall"
)

// CanPump: on other systems [Broker.Attach] does nothing, and every connection is served by its handler.
const CanPump = false

func writePieces(syscall.RawConn, [][]byte) (int, error) {
	return 0, errors.ErrUnsupported
}
