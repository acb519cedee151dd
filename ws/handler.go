package ws

import (
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"rejoin/delivery"
)

// Options of a Handler; the zero value of each but Broker and Problem is useful.
type Options struct {
	Broker *delivery.Broker
	// RetryMin and RetryMax are between what a client is told to wait before it
	// reconnects (500 ms, 3 s), at random for each connection.
	RetryMin, RetryMax time.Duration
	// Stuck is how long a write may go without progress before the connection
	// ends (10 s).
	Stuck time.Duration
	// Problem writes an error as the contract's problem object, in one line.
	Problem func(error) []byte
	// MaxChannels is how many channels one connection may have (100).
	MaxChannels int
	// Rewind is what a channel that a client adds starts with when the client
	// names no start; nil or 0: live.
	Rewind func(channel string) int
	// CheckOrigin refuses, by an error, a request that comes from a page
	// (RFC 6455, section 10.2). Nil: pages of other origins are refused, see
	// [SameOrigin].
	CheckOrigin func(*http.Request) error
	// Grant is what the client of a request may read; an error is the answer to
	// the request. Nil: everything. A grant that does not expire does so with the
	// request ([delivery.Request.Expires]).
	Grant func(*http.Request) (Grant, error)
	// Auth is what a token that a client sends in an auth frame allows. Nil:
	// such frames are answered by an error.
	Auth func(token string) (Grant, error)
}

// Handler serves WebSockets.
type Handler struct {
	o       Options
	buffers sync.Pool // *[]byte, for one write of any connection
	conns   sync.WaitGroup
}

// New makes a handler.
func New(o Options) *Handler {
	if o.RetryMin <= 0 {
		o.RetryMin = 500 * time.Millisecond
	}
	if o.RetryMax < o.RetryMin {
		o.RetryMax = max(o.RetryMin, 3*time.Second)
	}
	if o.Stuck <= 0 {
		o.Stuck = 10 * time.Second
	}
	if o.MaxChannels <= 0 {
		o.MaxChannels = delivery.DefaultMaxChannels
	}
	return &Handler{o: o, buffers: sync.Pool{New: func() any {
		b := make([]byte, 0, pieceBytes)
		return &b
	}}}
}

// Serve answers a request that has been read; it may name no channel. A request
// that is not upgraded is an error, and nothing has been written: a
// [*HandshakeError], or one of the Options' own. Else the connection is taken
// over and Serve returns at once, so that nothing of the request is kept; the
// connection lives until its subscription is done or its client is gone.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, req delivery.Request) error {
	if err := checkHandshake(w.Header(), r); err != nil {
		return err
	}
	if err := h.checkOrigin(r); err != nil {
		return err
	}
	var grant Grant
	if h.o.Grant != nil {
		var err error
		if grant, err = h.o.Grant(r); err != nil {
			return err
		}
	}
	if grant.Expires.IsZero() {
		grant.Expires = req.Expires
	}
	names := make([]string, len(req.Channels))
	for i, c := range req.Channels {
		names[i] = c.Name
	}
	if err := grant.check(names); err != nil {
		return err
	}
	h.conns.Add(1) // until the connection counts itself
	defer h.conns.Done()
	// Before the first byte: whoever has seen the answer misses nothing more.
	sub := h.o.Broker.Subscribe(req.Channels)
	up := ws.HTTPUpgrader{Timeout: h.o.Stuck}
	if wantsSubprotocol(r) {
		up.Header = http.Header{"Sec-WebSocket-Protocol": {Subprotocol}}
	}
	conn, rw, _, err := up.Upgrade(r, w)
	if err != nil { // the client is gone, or has been answered
		sub.Close()
		if conn != nil {
			_ = conn.Close()
		}
		return nil
	}
	// What the client sent right behind its request.
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	h.start(conn, append([]byte(nil), early...), sub, names, req.Heartbeat, grant)
	return nil
}

// Wait returns when every connection has ended. No request may come meanwhile;
// closing the broker ends them all.
func (h *Handler) Wait() { h.conns.Wait() }

func (h *Handler) checkOrigin(r *http.Request) error {
	switch {
	case r.Header.Get("Origin") == "":
		return nil
	case h.o.CheckOrigin != nil:
		return h.o.CheckOrigin(r)
	case !SameOrigin(r):
		return &HandshakeError{http.StatusForbidden, "pages of another origin may not open this WebSocket"}
	}
	return nil
}

// start runs a connection after its handshake. It owns conn and sub from now on.
func (h *Handler) start(conn net.Conn, early []byte, sub *delivery.Subscription, channels []string, heartbeat time.Duration, grant Grant) {
	s := &session{h: h, sub: sub, box: newMailbox(), encoder: NewEncoder(h.retry(), h.o.Problem), channels: channels}
	s.allow(grant)
	if tcp, ok := conn.(*net.TCPConn); ok && h.pump(tcp, early, heartbeat, s) {
		return
	}
	h.pull(conn, early, heartbeat, s)
}

// retry is a random time from RetryMin to RetryMax, so that clients that were
// cut off together come back one by one.
func (h *Handler) retry() time.Duration {
	spread := (h.o.RetryMax - h.o.RetryMin).Milliseconds()
	return h.o.RetryMin + time.Duration(rand.Int64N(spread+1))*time.Millisecond
}
