package redislog

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

func init() {
	// go-redis writes a line to standard error for every failed dial; every one
	// of those errors is returned too.
	logging.Disable()
}

// client is one go-redis client of one server. Closing it interrupts whatever
// runs on it, dials included.
type client struct {
	*redis.Client
	stop context.CancelFunc
	// failures counts dials that failed. go-redis stops dialling for up to a
	// second once there were as many as the pool has room for, so a client is
	// given up before.
	failures atomic.Int32
}

// connect makes a client; nothing is dialled before its first call.
func (t *target) connect(addr string, poolSize int, timeout time.Duration) *client {
	return newClient(addr, t.user, t.password, t.db, t.tls, poolSize, timeout)
}

func newClient(addr, user, password string, db int, tc *tls.Config, poolSize int, timeout time.Duration) *client {
	c := &client{}
	alive, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.Client = redis.NewClient(&redis.Options{
		Addr: addr, Username: user, Password: password, DB: db,
		Protocol: 2, // no push messages to look for before each command
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(alive, cancel)()
			conn, err := dial(ctx, network, addr, tc)
			if err != nil {
				c.failures.Add(1)
				return nil, &linkError{err: err}
			}
			return conn, nil
		},
		OnConnect: func(ctx context.Context, cn *redis.Conn) error {
			// Proves that the server takes commands, before one that matters: one
			// with too many clients says so to HELLO and then hangs up.
			if err := cn.Ping(ctx).Err(); err != nil && !isReply(err) {
				return err
			}
			return nil
		},
		MaxRetries: -1, DialerRetries: 1, DialTimeout: timeout,
		ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout, ContextTimeoutEnabled: true,
		PoolSize: poolSize, PipelinePoolSize: -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return c
}

// close ends the client. It may be called more than once.
func (c *client) close() {
	c.stop()
	_ = c.Client.Close()
}

func dial(ctx context.Context, network, addr string, tc *tls.Config) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if tc == nil {
		return &tcpLink{link{Conn: conn}}, nil
	}
	cfg := tc.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &link{Conn: secure}, nil
}

// link is a connection that knows whether a script went out on it, so that a
// failure can be told truthfully: before that, nothing can have been appended.
type link struct {
	net.Conn
	sent    atomic.Bool // a script, in the exchange that is going on
	reading bool        // its requests are out: the next write begins another
}

// tcpLink lets go-redis see whether an idle connection is still open; a TLS
// connection must not be looked into.
type tcpLink struct{ link }

func (l *tcpLink) SyscallConn() (syscall.RawConn, error) {
	return l.Conn.(syscall.Conn).SyscallConn()
}

func (l *link) Write(p []byte) (int, error) {
	if l.reading {
		l.reading = false
		l.sent.Store(false)
	}
	n, err := l.Conn.Write(p)
	if n > 0 && isScript(p) {
		l.sent.Store(true)
	}
	return n, l.wrap(err)
}

func (l *link) Read(p []byte) (int, error) {
	l.reading = true
	n, err := l.Conn.Read(p)
	return n, l.wrap(err)
}

func (l *link) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &linkError{err: err, sent: l.sent.Load()}
}

// isScript reports whether a write begins an EVAL or EVALSHA. A pipeline that
// holds one begins with one.
func isScript(p []byte) bool {
	// *12\r\n$7\r\nevalsha\r\n
	return bytes.Contains(p[:min(len(p), 20)], []byte("\r\neval"))
}

// linkError is a failure of a connection. sent: a script was written, whole or
// in part, and its answer not seen.
type linkError struct {
	err  error
	sent bool
}

func (e *linkError) Error() string { return e.err.Error() }

// Unwrap gives a list on purpose: go-redis unwraps single errors of the
// handshake and would lose what this one says.
func (e *linkError) Unwrap() []error { return []error{e.err} }

// Timeout and Temporary make it a net.Error.
func (e *linkError) Timeout() bool {
	ne, ok := errors.AsType[net.Error](e.err)
	return ok && ne.Timeout()
}
func (e *linkError) Temporary() bool { return false }
