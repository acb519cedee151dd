package api

import (
	"context"
	"net"
	"net/http"
	"time"
)

// NewServer makes a server for one of the handlers: HTTP/1.1 and HTTP/2, with
// and without TLS. What a client sends before a handler runs is bounded in size
// (headerBytes, 64 KiB if 0) and time; what follows, by the handler.
func NewServer(h http.Handler, headerBytes int) *http.Server {
	if headerBytes <= 0 {
		headerBytes = 64 << 10
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    headerBytes,
		Protocols:         &protocols,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
}

// connKey finds the connection under a request of a server made by NewServer.
type connKey struct{}

// detectDeath makes the kernel give up the connection under a request when its
// peer is gone without a word: a write into the kernel's buffer succeeds for
// long, so the server itself would notice late.
func detectDeath(ctx context.Context, heartbeat time.Duration) {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn() // under TLS
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	// An error means that the connection is gone, or that the system lacks the
	// option; the write deadline is still there.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: heartbeat, Interval: heartbeat / 3, Count: 3})
	_ = setUserTimeout(tcp, heartbeat)
}
