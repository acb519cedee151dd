package delivery

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// outletBytes is about how much one write carries.
	outletBytes = 256 << 10
	// outletPieces is the most pieces of one writev (IOV_MAX is 1024).
	outletPieces = 512
	// waiterPiece is what must go out within Stuck to count as progress.
	waiterPiece = 16 << 10
)

// Framer turns what a subscription has into the bytes of one connection. It is
// called by one goroutine at a time, in the order of the writes.
type Framer interface {
	// Frames adds the frames of the items.
	Frames(p *Pieces, items []Item)
	// Beat adds a sign of life.
	Beat(p *Pieces)
	// Reply adds the answer to what the client sent, as [Outlet.Reply] was given.
	Reply(p *Pieces, reply any)
	// Farewell adds what is said before the connection is closed, if anything.
	Farewell(p *Pieces, why Farewell)
}

// Farewell is why a connection is closed from here.
type Farewell struct {
	Why FarewellReason
	// Code and Text are a transport's own, for Dismissed.
	Code int
	Text string
}

// FarewellReason is why a connection is closed from here.
type FarewellReason uint8

// The reasons.
const (
	Finished  FarewellReason = iota // the subscription is done: Move, End or Error was told
	Dismissed                       // the transport said so
)

// OutletOptions say how a connection is served.
type OutletOptions struct {
	Framer    Framer
	Head      []byte        // written first: the handshake's answer
	Heartbeat time.Duration // a sign of life after so long without a byte sent
	// Answer: the sign of life wants an answer; without a byte from the client
	// within another heartbeat the connection ends.
	Answer bool
	Stuck  time.Duration // without progress for so long the connection ends
	// Receive takes what the client sends; an error ends the connection at once.
	// Nil: it is read and thrown away. Buffered came with the handshake.
	Receive  func([]byte) error
	Buffered []byte
}

// Outlet is a hijacked TCP connection in a pump's care. One writer at a time
// owns it: the pump, or, while the socket is full, a waiter. Everybody else only
// posts.
type Outlet struct {
	o     OutletOptions
	conn  *net.TCPConn
	raw   syscall.RawConn
	sub   *Subscription
	pump  *pump
	group *group
	key   *tail

	queued  atomic.Bool // in the pump's queue
	waiting atomic.Bool // a waiter owns it
	closed  atomic.Bool
	written atomic.Int64 // when a byte was last sent, Unix ns
	asked   atomic.Int64 // when a sign of life that wants an answer was sent; 0: answered

	// mu guards the following: what others post.
	mu      sync.Mutex
	beat    bool
	replies []any
	bye     *Farewell
}

// maxReplies bounds what a client can make the server remember.
const maxReplies = 64

// Attach gives a connection to a pump and returns at once. The pump writes what
// the subscription has, and closes both when either ends. It reports whether
// there is a pump for this system; if not, nothing was done.
func (b *Broker) Attach(conn *net.TCPConn, sub *Subscription, o OutletOptions) bool {
	if !CanPump {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	out := &Outlet{o: o, conn: conn, raw: raw, sub: sub}
	out.written.Store(time.Now().UnixNano())
	var first *tail
	sub.mu.Lock()
	if len(sub.members) > 0 {
		first = sub.members[0].tail
	}
	sub.mu.Unlock()

	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		conn.Close()
		sub.Close()
		return true
	}
	b.pumps.once.Do(func() { b.pumps.start(b) })
	b.pumps.least().enter(out, first)
	b.pumps.wg.Go(out.receive)
	sub.outlet.Store(out)
	b.mu.Unlock()
	out.poke()
	return true
}

// poke queues the outlet, once.
func (o *Outlet) poke() {
	if !o.queued.Swap(true) {
		o.pump.push(o)
	}
}

// Reply has the framer answer the client, between frames.
func (o *Outlet) Reply(reply any) {
	o.mu.Lock()
	if len(o.replies) < maxReplies {
		o.replies = append(o.replies, reply)
	}
	o.mu.Unlock()
	o.poke()
}

// Dismiss closes the connection after the frame under way, with a farewell.
func (o *Outlet) Dismiss(why Farewell) {
	o.mu.Lock()
	if o.bye == nil {
		o.bye = &why
	}
	o.mu.Unlock()
	o.poke()
}

// serve writes what there is without blocking. Only the pump calls it.
func (o *Outlet) serve(w *writing, now time.Time) {
	p := &w.Pieces
	if o.waiting.Load() {
		return // still queued: the waiter, when done, pushes it again
	}
	o.queued.Store(false)
	if o.closed.Load() {
		return
	}
	p.reset()
	last := o.gather(w)
	if p.size > 0 {
		n, err := writePieces(o.raw, p.list)
		switch {
		case err != nil:
			o.shut()
			return
		case n < p.size:
			o.waiting.Store(true)
			o.queued.Store(true)
			rest := p.rest(n)
			o.sub.b.pumps.wg.Go(func() { o.wait(rest, last) })
			return
		}
		o.written.Store(now.UnixNano())
	}
	if last {
		o.shut()
	}
}

// gather collects the next write; last: the connection is to be closed behind it.
func (o *Outlet) gather(w *writing) (last bool) {
	p := &w.Pieces
	if o.o.Head != nil {
		p.Shared(o.o.Head)
		o.o.Head = nil
	}
	o.mu.Lock()
	beat, replies, bye := o.beat, o.replies, o.bye
	o.beat, o.replies = false, nil
	o.mu.Unlock()
	for _, r := range replies {
		o.o.Framer.Reply(p, r)
	}
	if bye != nil {
		o.o.Framer.Farewell(p, *bye)
		return true
	}
	if beat {
		o.o.Framer.Beat(p)
	}
	batch := o.sub.next(w.items, outletBytes)
	w.items = batch.Items
	if len(batch.Items) > 0 {
		o.o.Framer.Frames(p, batch.Items)
		o.sub.Delivered(batch)
	}
	if batch.Done {
		o.o.Framer.Farewell(p, Farewell{Why: Finished})
		return true
	}
	if batch.More {
		o.poke()
	}
	return false
}

// wait writes the rest of a write that the socket did not take, with a deadline,
// and hands the connection back to the pump.
func (o *Outlet) wait(rest [][]byte, last bool) {
	for _, b := range rest {
		for len(b) > 0 {
			n := min(len(b), waiterPiece)
			if o.conn.SetWriteDeadline(time.Now().Add(o.o.Stuck)) != nil {
				o.shut()
				return
			}
			if _, err := o.conn.Write(b[:n]); err != nil {
				o.shut()
				return
			}
			b = b[n:]
		}
	}
	if last || o.conn.SetWriteDeadline(time.Time{}) != nil {
		o.shut()
		return
	}
	o.written.Store(time.Now().UnixNano())
	o.waiting.Store(false)
	o.pump.push(o) // it is still marked as queued
}

// receive reads what the client sends until it is gone.
func (o *Outlet) receive() {
	defer o.shut()
	var buf [512]byte
	data := o.o.Buffered
	o.o.Buffered = nil
	for {
		if len(data) > 0 {
			o.asked.Store(0)
			if o.o.Receive != nil {
				if err := o.o.Receive(data); err != nil {
					return
				}
			}
		}
		n, err := o.conn.Read(buf[:])
		if err != nil {
			return
		}
		data = buf[:n]
	}
}

// sweep sees to signs of life.
func (o *Outlet) sweep(now time.Time) {
	if asked := o.asked.Load(); asked != 0 && now.UnixNano()-asked > int64(o.o.Heartbeat) {
		o.shut()
		return
	}
	if o.waiting.Load() || now.UnixNano()-o.written.Load() < int64(o.o.Heartbeat) {
		return
	}
	if o.o.Answer {
		o.asked.CompareAndSwap(0, now.UnixNano())
	}
	o.mu.Lock()
	o.beat = true
	o.mu.Unlock()
	o.poke()
}

// shut closes the connection and its subscription, once.
func (o *Outlet) shut() {
	if o.closed.Swap(true) {
		return
	}
	o.conn.Close()
	o.sub.Close()
	o.pump.leave(o)
}
