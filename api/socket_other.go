//go:build !linux

package api

import (
	"net"
	"time"
)

// setUserTimeout does nothing: there is no TCP_USER_TIMEOUT here, keepalive has
// to do.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
