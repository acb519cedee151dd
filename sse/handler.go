package sse

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"rejoin/delivery"
	"rejoin/stream"
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
}

// Handler serves event streams.
type Handler struct {
	o       Options
	buffers sync.Pool // *[]byte, between two writes of any connection
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
	return &Handler{o: o, buffers: sync.Pool{New: func() any { return new([]byte) }}}
}

const (
	// batchBytes is about how much is encoded at a time for one connection.
	batchBytes = 64 << 10
	// pieceBytes is what must go out within Stuck to count as progress.
	pieceBytes = 16 << 10
	// keepBuffer is the largest buffer kept for the next write.
	keepBuffer = 2 * batchBytes
)

// Serve answers a request that has been read. A request it cannot serve is an
// error ([*delivery.RequestError]), and nothing has been written. Nil: the
// answer was given, or the connection is a pump's now. Else it does not return:
// it ends by panic([http.ErrAbortHandler]), which closes an HTTP/1.1 connection
// without the last chunk and resets an HTTP/2 stream. A clean end would tell
// some clients that the stream is complete.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, req delivery.Request) error {
	asJSON, padding, err := readParams(req)
	if err != nil {
		return err
	}
	names := make([]string, len(req.Channels))
	for i, c := range req.Channels {
		names[i] = c.Name
	}
	encoder := NewEncoder(names, asJSON, h.o.Problem)
	// Before the first byte: whoever has seen the answer misses nothing more.
	sub := h.o.Broker.Subscribe(req.Channels)
	sub.ExpireAt(req.Expires)
	first, ended := h.first(r.Context(), sub, req.Channels)
	if ended {
		sub.Close()
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	setHead(w.Header())
	var start []byte
	if padding {
		start = AppendPadding(start)
	}
	start = AppendRetry(start, h.retry())
	for i := range first.Items {
		start = encoder.Append(start, &first.Items[i])
	}
	sub.Delivered(first)
	if h.pumpable(r) {
		return h.pump(w, req.Heartbeat, sub, encoder, start)
	}
	defer sub.Close()
	w.WriteHeader(http.StatusOK)
	c := &conn{
		h:         h,
		out:       w,
		control:   http.NewResponseController(w),
		http2:     r.ProtoMajor == 2,
		encoder:   encoder,
		heartbeat: req.Heartbeat,
	}
	c.run(r.Context(), sub, start)
	panic(http.ErrAbortHandler)
}

// firstWait is how long an answer may wait to learn whether the channels have
// ended at the client's cursor.
const firstWait = 250 * time.Millisecond

// first is what a client that comes back is told first; nothing for others, who
// are answered without waiting for the log. ended: its cursor is the end of all
// its channels, and there is nothing more to tell. A 204 then stops a browser's
// EventSource for good (WHATWG HTML, 9.2.3).
func (h *Handler) first(ctx context.Context, sub *delivery.Subscription, channels []delivery.Channel) (b delivery.Batch, ended bool) {
	for _, c := range channels {
		if pos, ok := c.Start.Cursor(); !ok || pos == stream.Earliest {
			return b, false
		}
	}
	timeout := time.NewTimer(firstWait)
	defer timeout.Stop()
	for {
		if b = sub.Next(batchBytes); len(b.Items) > 0 || b.Done {
			break
		}
		select {
		case <-sub.Wake():
			continue
		case <-timeout.C:
		case <-ctx.Done():
		}
		return b, false
	}
	if !b.Done {
		return b, false
	}
	for i := range b.Items {
		switch b.Items[i].Kind {
		case delivery.Ready, delivery.End:
			ended = true
		default:
			return b, false
		}
	}
	return b, ended
}

// readParams reads what this transport adds to a request.
func readParams(req delivery.Request) (asJSON, padding bool, err error) {
	if err := req.Params.Check("format", "padding"); err != nil {
		return false, false, err
	}
	switch format, ok := req.Params.Get("format"); {
	case ok && format == "json":
		asJSON = true
	case ok && format != "raw":
		return false, false, &delivery.RequestError{Name: "format", Reason: "want raw or json"}
	case len(req.Channels) > 1:
		return false, false, &delivery.RequestError{Name: "format", Reason: "several channels need format=json, or no message says which channel it is of"}
	}
	switch text, ok := req.Params.Get("padding"); {
	case ok && text == "true":
		padding = true
	case ok && text != "false":
		return false, false, &delivery.RequestError{Name: "padding", Reason: "want true or false"}
	}
	return asJSON, padding, nil
}

// conn is one connection, served by one goroutine.
type conn struct {
	h         *Handler
	out       http.ResponseWriter
	control   *http.ResponseController
	http2     bool
	encoder   *Encoder
	heartbeat time.Duration
}

// run writes what the subscription has until it is done, the client is gone or
// does not take it.
func (c *conn) run(ctx context.Context, sub *delivery.Subscription, start []byte) {
	// A read deadline of the server's would end a connection that only listens.
	_ = c.control.SetReadDeadline(time.Time{})
	if c.send(start) != nil {
		return
	}
	silence := time.NewTimer(c.heartbeat)
	defer silence.Stop()
	for ctx.Err() == nil {
		batch := sub.Next(batchBytes)
		if len(batch.Items) > 0 {
			if c.write(func(b []byte) []byte {
				for i := range batch.Items {
					b = c.encoder.Append(b, &batch.Items[i])
				}
				return b
			}) != nil {
				return
			}
			sub.Delivered(batch)
			silence.Reset(c.heartbeat)
		}
		if batch.Done {
			return
		}
		if batch.More {
			continue
		}
		select {
		case <-ctx.Done():
		case <-sub.Wake():
		case <-silence.C:
			if c.write(func(b []byte) []byte { return append(b, Heartbeat...) }) != nil {
				return
			}
			silence.Reset(c.heartbeat)
		}
	}
}

// write sends what fill appends, and returns when the kernel has it, or an error
// when Stuck passed without progress.
func (c *conn) write(fill func([]byte) []byte) error {
	p := c.h.buffers.Get().(*[]byte)
	buf := fill((*p)[:0])
	err := c.send(buf)
	if cap(buf) > keepBuffer {
		buf = nil
	}
	*p = buf
	c.h.buffers.Put(p)
	return err
}

func (c *conn) send(b []byte) error {
	for len(b) > 0 {
		if err := c.deadline(time.Now().Add(c.h.o.Stuck)); err != nil {
			return err
		}
		n := min(len(b), pieceBytes)
		if _, err := c.out.Write(b[:n]); err != nil {
			return err
		}
		if err := c.control.Flush(); err != nil {
			return err
		}
		b = b[n:]
	}
	if c.http2 {
		// On HTTP/1.1 a deadline that passes between writes does nothing; on
		// HTTP/2 it resets the stream.
		return c.deadline(time.Time{})
	}
	return nil
}

func (c *conn) deadline(t time.Time) error {
	if err := c.control.SetWriteDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// retry is a random time from RetryMin to RetryMax, so that clients that were
// cut off together come back one by one.
func (h *Handler) retry() time.Duration {
	spread := (h.o.RetryMax - h.o.RetryMin).Milliseconds()
	return h.o.RetryMin + time.Duration(rand.Int64N(spread+1))*time.Millisecond
}
