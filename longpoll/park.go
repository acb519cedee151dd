package longpoll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"rejoin/delivery"
)

// errPark says that a poll has to wait and its connection may be taken over.
var errPark = errors.New("longpoll: to be parked")

// canPark reports whether a request's connection can be taken from the HTTP
// server while its poll is held, and given back with the answer: so that a held
// poll costs a small goroutine, and none of the server's buffers.
func (h *Handler) canPark(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	_, tcp := addr.(*net.TCPAddr)
	return tcp && serverOf(r) != nil && h.o.Fail != nil && h.o.Broker.CanPump() &&
		r.TLS == nil && r.ProtoMajor == 1 && r.ProtoMinor == 1 && !r.Close &&
		r.Body == http.NoBody // else it would be taken for the next request
}

// serverOf is the HTTP server a request came to.
func serverOf(r *http.Request) *http.Server {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return server
}

// giveBack has the server serve the requests behind the poll. The next must come
// within its ReadHeaderTimeout.
func giveBack(server *http.Server, conn net.Conn) {
	if errors.Is(server.Serve(&once{conn: conn}), http.ErrServerClosed) {
		_ = conn.Close()
	}
}

// once is a listener of one connection.
type once struct{ conn net.Conn }

func (o *once) Accept() (net.Conn, error) {
	if o.conn == nil {
		return nil, io.EOF
	}
	c := o.conn
	o.conn = nil
	return c, nil
}

func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.TCPAddr{} }

// ahead is a connection of which the HTTP server had read more than one request:
// what the client sent before it had the answer (pipelining, RFC 9112, section
// 9.3.2). The server's buffer bounds that.
type ahead struct {
	net.Conn
	read []byte
}

func (a *ahead) Read(b []byte) (int, error) {
	if len(a.read) == 0 {
		return a.Conn.Read(b)
	}
	n := copy(b, a.read)
	a.read = a.read[n:]
	return n, nil
}

// NetConn is the connection below.
func (a *ahead) NetConn() net.Conn { return a.Conn }

// park takes the connection over and finishes the poll in a goroutine of its
// own. false: it cannot, and nothing was done.
func (h *Handler) park(w http.ResponseWriter, r *http.Request, p *poll, sub *delivery.Subscription) bool {
	head := w.Header().Clone() // what those before have set
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	buffered, _ := rw.Reader.Peek(rw.Reader.Buffered()) // all of it is there
	next := &ahead{conn, slices.Clone(buffered)}
	if before, again := conn.(*ahead); again {
		next.Conn, next.read = before.Conn, append(next.read, before.read...)
	}
	conn = next.Conn
	tcp, ok := conn.(*net.TCPConn)
	if !ok || conn.SetDeadline(time.Time{}) != nil {
		head.Set("Connection", "close")
	}
	a := &answer{conn: conn, head: head, keep: head.Get("Connection") != "close"}
	server := serverOf(r)
	query, path := r.URL.RawQuery, r.URL.Path // all of the request that the answer needs
	h.parked.Go(func() {
		ctx, gone := context.WithCancel(context.Background())
		defer gone()
		stop := func() {}
		if ok {
			stop = h.o.Broker.Watch(tcp, gone)
		}
		err := p.run(ctx, sub, false)
		stop()
		_ = conn.SetWriteDeadline(time.Now().Add(h.o.Stuck)) // closed: Write says so
		left := ctx.Err() != nil
		switch {
		case left:
		case err != nil:
			h.o.Fail(a, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}}, err)
		default:
			left = h.finish(a, p, sub) != nil
		}
		sub.Close()
		if left || !a.done() || conn.SetWriteDeadline(time.Time{}) != nil {
			_ = conn.Close()
			return
		}
		if len(next.read) > 0 {
			conn = next
		}
		giveBack(server, conn)
	})
	return true
}

// answer is the response of a parked poll, written straight to its connection.
type answer struct {
	conn net.Conn
	head http.Header
	sent bool
	keep bool // the connection can be used again
	err  error
}

func (a *answer) Header() http.Header { return a.head }

// WriteHeader sends the head. Content-Length must be set.
func (a *answer) WriteHeader(status int) {
	if a.sent {
		return
	}
	a.sent = true
	a.keep = a.keep && a.head.Get("Connection") != "close" && a.head.Get("Content-Length") != ""
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, http.StatusText(status), time.Now().UTC().Format(http.TimeFormat))
	_ = a.head.Write(&b) // into memory
	b.WriteString("\r\n")
	_, _ = a.Write(b.Bytes())
}

func (a *answer) Write(b []byte) (n int, err error) {
	a.WriteHeader(http.StatusOK)
	if a.err == nil {
		n, a.err = a.conn.Write(b)
	}
	return n, a.err
}

// SetWriteDeadline and FlushError are what an [http.ResponseController] asks for.
func (a *answer) SetWriteDeadline(t time.Time) error { return a.conn.SetWriteDeadline(t) }
func (a *answer) FlushError() error                  { return a.err }

// done reports whether the answer went out whole and the connection goes on.
func (a *answer) done() bool { return a.sent && a.keep && a.err == nil }
