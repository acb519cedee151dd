package ws

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"rejoin/delivery"
)

const (
	// batchBytes is about how much is taken from the subscription at a time.
	batchBytes = 64 << 10
	// pieceBytes is the most that is written before control frames get their
	// turn, but for a frame that is larger; and what must go out within Stuck to
	// count as progress.
	pieceBytes = 16 << 10
	// readBytes is what is read at a time: clients send little.
	readBytes = 512
	// closeWait is how long a client may take to answer a close frame, and a
	// stuck one to take the last it is sent.
	closeWait = 2 * time.Second
)

// connection is a WebSocket without a pump (TLS in this process, other systems):
// a goroutine that reads and one that writes.
type connection struct {
	h         *Handler
	net       net.Conn
	heartbeat time.Duration
	session   *session
	posted    chan struct{} // one slot: there may be something in the mailbox
	heard     atomic.Bool
	gone      chan struct{} // closed when the read goroutine ends

	// The write goroutine's own.
	silence *time.Timer // runs out when nothing was sent for a heartbeat
	ending  *ending     // the close frame that was sent
}

// pull runs a connection by two goroutines of its own.
func (h *Handler) pull(conn net.Conn, early []byte, heartbeat time.Duration, s *session) {
	c := &connection{
		h: h, net: conn, heartbeat: heartbeat, session: s,
		posted: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	s.box.poke = func() {
		select {
		case c.posted <- struct{}{}:
		default:
		}
	}
	h.conns.Go(func() { c.read(early) })
	h.conns.Go(c.run)
}

// read hands what the client sends to the session, until the client has closed
// or is gone.
func (c *connection) read(data []byte) {
	defer close(c.gone)
	buf := make([]byte, readBytes)
	for {
		if len(data) > 0 {
			c.heard.Store(true)
			switch c.session.receive(data) {
			case over:
				return
			case garbled:
				for { // an unread byte would turn our close into a reset
					if _, err := c.net.Read(buf); err != nil {
						return
					}
				}
			}
		}
		n, err := c.net.Read(buf)
		if data = buf[:n]; n == 0 && err != nil {
			_ = c.net.Close() // frees a writer that waits for this client
			return
		}
	}
}

// run writes what the subscription and the mailbox have, until either says that
// it is over or the client is gone.
func (c *connection) run() {
	defer c.finish()
	c.silence = time.NewTimer(c.heartbeat)
	defer c.silence.Stop()
	answer := time.NewTimer(c.heartbeat) // runs out when a ping must have been answered
	answer.Stop()
	defer answer.Stop()
	asked := false
	for c.sendMail() {
		batch := c.session.sub.Next(batchBytes)
		if len(batch.Items) > 0 {
			if !c.sendBatch(batch) {
				return
			}
			c.session.sub.Delivered(batch)
		}
		switch {
		case batch.Done:
			c.session.box.end(farewell(batch.Items))
			continue
		case batch.More:
			continue
		}
		select {
		case <-c.session.sub.Wake():
		case <-c.posted:
		case <-c.gone:
			// With an order to close, or without a word.
			c.sendMail()
			return
		case <-c.silence.C: // with nothing sent since a ping, its answer is due too
			if asked && !c.heard.Load() {
				c.session.box.end(unanswered)
				continue
			}
			asked = true
			c.heard.Store(false)
			if !c.write(ws.CompiledPing) {
				return
			}
			answer.Reset(c.heartbeat)
		case <-answer.C:
			if !c.heard.Load() {
				c.session.box.end(unanswered)
			}
			asked = false
		}
	}
}

// sendMail sends what the mailbox has; false when the connection is over.
func (c *connection) sendMail() bool {
	frames, end := c.session.box.take()
	if end != nil {
		frames = end.append(frames)
	}
	if len(frames) > 0 && !c.write(frames) {
		return false
	}
	c.ending = end
	return end == nil
}

// sendBatch sends a batch's frames, several in a piece, and what the mailbox has
// between two pieces; false when the connection is over.
func (c *connection) sendBatch(batch delivery.Batch) bool {
	p := c.h.buffers.Get().(*[]byte)
	defer c.h.buffers.Put(p)
	piece := (*p)[:0]
	for i := range batch.Items {
		it := &batch.Items[i]
		frame := c.session.encoder.Frame(it)
		if len(piece) > 0 && len(piece)+len(frame) > pieceBytes {
			if !c.write(piece) || !c.sendMail() {
				return false
			}
			piece = piece[:0]
		}
		if len(frame) > pieceBytes {
			if !c.write(frame) || !c.sendMail() {
				return false
			}
		} else {
			piece = append(piece, frame...)
		}
		if it.Kind == delivery.Unsubscribed {
			c.session.box.paid(1)
		}
	}
	return len(piece) == 0 || c.write(piece)
}

// write sends whole frames; false when the client is gone, or does not take
// them.
func (c *connection) write(frames []byte) bool {
	for sent := 0; sent < len(frames); {
		// An error means that the connection is closed, as Write will say.
		_ = c.net.SetWriteDeadline(time.Now().Add(c.h.o.Stuck))
		n, err := c.net.Write(frames[sent:min(len(frames), sent+pieceBytes)])
		sent += n
		if err == nil || n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.giveUp(frames[sent:frameEnd(frames, sent)])
		}
		return false
	}
	c.silence.Reset(c.heartbeat)
	return true
}

// giveUp tells a client that takes nothing why it is cut off, should it take
// anything now: first the rest of the frame under way, for the client would take
// a close frame inside it for text.
func (c *connection) giveUp(rest []byte) {
	last := stuck.append(append([]byte(nil), rest...))
	_ = c.net.SetWriteDeadline(time.Now().Add(closeWait))
	if _, err := c.net.Write(last); err == nil {
		c.ending = &stuck
	}
}

// finish ends the connection. When a close frame was sent, the client has
// closeWait to answer with its own (RFC 6455, section 7.1.1).
func (c *connection) finish() {
	c.session.box.close()
	if c.ending != nil {
		if half, ok := c.net.(interface{ CloseWrite() error }); ok && c.ending.then == delivery.HalfClose {
			_ = half.CloseWrite()
		}
		_ = c.net.SetReadDeadline(time.Now().Add(closeWait))
		<-c.gone
	}
	_ = c.net.Close()
	<-c.gone
	c.session.sub.Close()
}
