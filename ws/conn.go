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

// connection is one WebSocket after its handshake: a goroutine that reads and
// one that writes.
type connection struct {
	h         *Handler
	net       net.Conn
	sub       *delivery.Subscription
	box       *mailbox
	encoder   *Encoder
	heartbeat time.Duration
	session   session // of the read goroutine
	heard     atomic.Bool
	gone      chan struct{} // closed when the read goroutine ends

	// The write goroutine's own.
	silence *time.Timer // runs out when nothing was sent for a heartbeat
	ending  *ending     // the close frame that was sent
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
		batch := c.sub.Next(batchBytes)
		if len(batch.Items) > 0 {
			if !c.sendBatch(batch) {
				return
			}
			c.sub.Delivered(batch)
		}
		switch {
		case batch.Done:
			c.box.close(farewell(batch))
			continue
		case batch.More:
			continue
		}
		select {
		case <-c.sub.Wake():
		case <-c.box.posted:
		case <-c.gone:
			// With an order to close, or without a word.
			c.sendMail()
			return
		case <-c.silence.C: // with nothing sent since a ping, its answer is due too
			if asked && !c.heard.Load() {
				c.box.close(unanswered)
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
				c.box.close(unanswered)
			}
			asked = false
		}
	}
}

var unanswered = ending{code: closeNoProgress, reason: "a ping was not answered"}

// farewell is how a connection is closed behind the last batch.
func farewell(batch delivery.Batch) ending {
	for i := range batch.Items {
		switch batch.Items[i].Kind {
		case delivery.Error:
			return ending{code: ws.StatusInternalServerError, reason: "a channel cannot be read"}
		case delivery.End, delivery.Unsubscribed:
			// Nothing else than the end of the last channel is told with Done.
			return ending{code: ws.StatusNormalClosure, reason: "every channel has ended"}
		}
	}
	return ending{code: ws.StatusGoingAway, reason: "this server moves its connections: come back"}
}

// sendMail sends what the mailbox has; false when the connection is over.
func (c *connection) sendMail() bool {
	frames, end := c.box.take()
	if end != nil {
		frames = append(frames, end.last...)
		frames = appendClose(frames, end.code, end.reason)
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
		frame := c.encoder.Frame(it)
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
			c.box.paid(1)
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
	end := ending{code: closeNoProgress, reason: "nothing was taken for too long"}
	last := appendClose(append([]byte(nil), rest...), end.code, end.reason)
	_ = c.net.SetWriteDeadline(time.Now().Add(closeWait))
	if _, err := c.net.Write(last); err == nil {
		c.ending = &end
	}
}

// finish ends the connection. When a close frame was sent, the client has
// closeWait to answer with its own (RFC 6455, section 7.1.1).
func (c *connection) finish() {
	close(c.box.shut)
	if c.ending != nil {
		if half, ok := c.net.(interface{ CloseWrite() error }); ok && c.ending.deaf {
			_ = half.CloseWrite()
		}
		_ = c.net.SetReadDeadline(time.Now().Add(closeWait))
		<-c.gone
	}
	_ = c.net.Close()
	<-c.gone
	c.session.stop()
	c.sub.Close()
}
