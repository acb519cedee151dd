package delivery

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
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

// Framer turns what a subscription has into the bytes of one connection. Its
// methods are called by one goroutine at a time, in the order of the writes.
type Framer interface {
	// Mail adds what was posted to the connection since it was last asked (see
	// [Outlet.Poke]), and says how the connection is closed behind it, if it is.
	Mail(p *Pieces) Parting
	// Frames adds the frames of the items; where Mail may add something, a piece
	// is a whole frame or several.
	Frames(p *Pieces, items []Item)
	// Beat adds a sign of life.
	Beat(p *Pieces)
	// Farewell adds what is said behind the items of the last batch, if anything,
	// and says how the connection is closed.
	Farewell(p *Pieces, items []Item) Parting
}

// Parting is how a connection is closed behind its last byte.
type Parting uint8

// The ways to part.
const (
	GoOn       Parting = iota // it is not
	CloseNow                  // at once
	AwaitClose                // the client may close first, within lingerFor
	HalfClose                 // the same, and it is told by a FIN
)

// lingerFor is how long a client may take to close, and a stuck one to take the
// last it is sent.
const lingerFor = 2 * time.Second

// OutletOptions say how a connection is served.
type OutletOptions struct {
	Framer    Framer
	Head      []byte        // written first: the handshake's answer
	Heartbeat time.Duration // a sign of life after so long without a byte sent
	Stuck     time.Duration // without progress for so long the connection ends
	// LastWords are tried, behind the piece under way, on a connection that ends
	// because it is stuck.
	LastWords []byte
	// Unanswered: signs of life want an answer. It is called when not a byte came
	// within another heartbeat. Nil: they do not.
	Unanswered func()
	// Receive takes what the client sends, Buffered first, which came with the
	// handshake. It returns false when the client has said its last word. It may
	// block. Nil: the client has nothing to say.
	Receive  func([]byte) bool
	Buffered []byte
	// Closed is called once, when the connection has been closed.
	Closed func()
}

// Outlet is a hijacked TCP connection in a pump's care. One writer at a time
// owns it: the pump, or, while the socket is full, a waiter. Everybody else only
// posts and pokes.
type Outlet struct {
	place
	o     OutletOptions
	conn  *net.TCPConn
	sub   *Subscription
	pump  *pump
	group *group
	key   *tail

	deaf bool // the client has said its last word; the reader's own

	queued  atomic.Bool // in the pump's queue
	waiting atomic.Bool // a waiter owns it
	beat    atomic.Bool // a sign of life is due
	closed  atomic.Bool
	written atomic.Int64 // when a byte was last sent, Unix ns
	asked   atomic.Int64 // when a sign of life that wants an answer was sent; 0: answered
	parting Parting      // behind what is being written; the writer's own
}

// Attach gives a connection to a pump and returns at once. The pump writes what
// the subscription has, and closes both when either ends. It reports whether
// there is a pump ([Broker.CanPump]); if not, nothing was done. attached, if not
// nil, is given the outlet before anything is written or read.
func (b *Broker) Attach(conn *net.TCPConn, sub *Subscription, o OutletOptions, attached func(*Outlet)) bool {
	if !b.CanPump() {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	out := &Outlet{place: place{raw: raw}, o: o, conn: conn, sub: sub}
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
		if o.Closed != nil {
			o.Closed()
		}
		return true
	}
	b.startPumps()
	b.pumps.least().enter(out, first)
	if attached != nil {
		attached(out)
	}
	b.pumps.ear.enter(out, &out.place)
	sub.outlet.Store(out)
	b.pumps.wg.Go(out.begin)
	b.mu.Unlock()
	out.Poke()
	return true
}

// Poke has the pump look at the connection soon.
func (o *Outlet) Poke() {
	if !o.queued.Swap(true) {
		o.pump.push(o)
	}
}

// serve writes what there is without blocking. Only the pump calls it.
func (o *Outlet) serve(w *writing, now time.Time) {
	p := &w.Pieces
	if o.waiting.Load() {
		return // still queued: the waiter, when done, pushes it again
	}
	o.queued.Store(false)
	if o.parting != GoOn || o.closed.Load() {
		return
	}
	p.reset()
	w.items = w.items[:0]
	o.parting = o.gather(w)
	if p.size > 0 {
		n, err := w.write(o.raw)
		switch {
		case err != nil:
			o.shut()
			return
		case n < p.size:
			o.waiting.Store(true)
			o.queued.Store(true)
			rest, sent := p.rest(n), tallyOf(w.items)
			o.sub.b.pumps.wg.Go(func() { o.wait(rest, sent) })
			return
		}
		o.written.Store(now.UnixNano())
		o.sub.account(tallyOf(w.items))
	}
	if o.parting != GoOn {
		o.part()
	}
}

// gather collects the next write, and says what is done behind it.
func (o *Outlet) gather(w *writing) Parting {
	p := &w.Pieces
	if o.o.Head != nil {
		p.Shared(o.o.Head)
		o.o.Head = nil
	}
	if parting := o.o.Framer.Mail(p); parting != GoOn {
		return parting
	}
	if o.beat.Swap(false) {
		o.o.Framer.Beat(p)
	}
	batch := o.sub.next(w.items, outletBytes)
	w.items = batch.Items
	if len(batch.Items) > 0 {
		o.o.Framer.Frames(p, batch.Items)
	}
	if batch.Done {
		return o.o.Framer.Farewell(p, batch.Items)
	}
	if batch.More {
		o.Poke()
	}
	return GoOn
}

// wait writes the rest of a write that the socket did not take, with deadlines,
// and hands the connection back to the pump. What is posted meanwhile goes
// between two pieces.
func (o *Outlet) wait(rest [][]byte, sent tally) {
	for _, b := range rest {
		if !o.push(b) {
			o.shut()
			return
		}
		if o.parting != GoOn {
			continue
		}
		var mail Pieces
		o.parting = o.o.Framer.Mail(&mail)
		for _, b := range mail.list {
			if !o.push(b) {
				o.shut()
				return
			}
		}
		if o.parting != GoOn {
			break // what is left unsent stays in the log
		}
	}
	o.sub.account(sent)
	if o.parting != GoOn {
		o.part()
		return
	}
	if o.conn.SetWriteDeadline(time.Time{}) != nil {
		o.shut()
		return
	}
	o.written.Store(time.Now().UnixNano())
	o.waiting.Store(false)
	o.pump.push(o) // it is still marked as queued
}

// push writes a piece as fast as the client takes it; false when it takes
// nothing for Stuck, or is gone.
func (o *Outlet) push(b []byte) bool {
	for len(b) > 0 {
		_ = o.conn.SetWriteDeadline(time.Now().Add(o.o.Stuck)) // closed: Write says so
		n, err := o.conn.Write(b[:min(len(b), waiterPiece)])
		b = b[n:]
		if err == nil || n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && len(o.o.LastWords) > 0 {
			_ = o.conn.SetWriteDeadline(time.Now().Add(lingerFor))
			_, _ = o.conn.Write(append(append([]byte(nil), b...), o.o.LastWords...))
		}
		return false
	}
	return true
}

// part closes the connection behind its last byte.
func (o *Outlet) part() {
	if o.parting == CloseNow || o.parting == HalfClose && o.conn.CloseWrite() != nil {
		o.shut()
		return
	}
	time.AfterFunc(lingerFor, o.shut)
}

// begin takes what the client sent so far, and has the ear hear the rest.
func (o *Outlet) begin() {
	if data := o.o.Buffered; len(data) > 0 {
		o.o.Buffered = nil
		o.receive(data)
	}
	var buf [256]byte
	o.hear(o.sub.b.pumps.ear, buf[:], epollAdd)
}

// receive takes what the client sent.
func (o *Outlet) receive(data []byte) {
	o.asked.Store(0)
	if o.o.Receive != nil && !o.deaf {
		o.deaf = !o.o.Receive(data)
	}
}

// sweep sees to signs of life.
func (o *Outlet) sweep(now time.Time) {
	beat := int64(o.o.Heartbeat)
	if asked := o.asked.Load(); asked != 0 && now.UnixNano()-asked >= beat {
		o.asked.Store(0)
		o.o.Unanswered()
		return
	}
	if o.waiting.Load() || now.UnixNano()-o.written.Load() < beat {
		return
	}
	if o.o.Unanswered != nil {
		o.asked.CompareAndSwap(0, now.UnixNano())
	}
	o.beat.Store(true)
	o.Poke()
}

// shut closes the connection and its subscription, once.
func (o *Outlet) shut() {
	if o.closed.Swap(true) {
		return
	}
	o.sub.b.pumps.ear.forget(&o.place)
	o.conn.Close()
	o.sub.Close()
	o.pump.leave(o)
	if o.o.Closed != nil {
		o.o.Closed()
	}
}
