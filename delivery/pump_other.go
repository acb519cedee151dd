//go:build !linux

package delivery

import (
	"errors"
	"syscall"
)

func (w *writing) write(syscall.RawConn) (int, error) { return 0, errors.ErrUnsupported }
