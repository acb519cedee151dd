package delivery

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"rejoin/stream"
)

// Broker serves all readers of this process from one reading of the log.
//
// Lock order: Broker.mu, then Subscription.mu, then part.mu or tail.mu, which
// are never held together.
type Broker struct {
	log   stream.Log
	o     Options
	parts []*part
	bytes atomic.Int64 // held by tails and pages
	stop  context.CancelFunc
	wg    sync.WaitGroup
	pumps pumps

	// mu guards the following.
	mu     sync.Mutex
	subs   map[*Subscription]struct{}
	leave  time.Time     // when the last connection is to be gone; zero: not draining
	empty  chan struct{} // closed when draining and the last subscription left
	closed bool
}

// New starts a broker on the log. The log is not closed with it.
func New(log stream.Log, o Options) *Broker {
	if o.TailBytes <= 0 {
		o.TailBytes = 4 << 20
	}
	if o.TotalBytes <= 0 {
		o.TotalBytes = 256 << 20
	}
	if o.MoveWithin <= 0 {
		o.MoveWithin = 10 * time.Second
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	if o.Log == nil {
		o.Log = func(string, int, error) {}
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &Broker{log: log, o: o, stop: stop, subs: map[*Subscription]struct{}{}, pumps: pumps{ear: newEar(), stop: make(chan struct{})}}
	for i := range log.Parts() {
		b.parts = append(b.parts, newPart(b, i))
	}
	for _, p := range b.parts {
		b.wg.Go(func() { p.run(ctx) })
	}
	return b
}

func (b *Broker) retention(channel string) stream.Retention {
	if b.o.Retention == nil {
		return stream.DefaultRetention
	}
	return b.o.Retention(channel)
}

// Subscribe begins a subscription on one channel or several, each named once.
// It never fails and asks nobody: what it finds is told by Next. While the
// broker drains, the subscription is told Move and ends soon.
func (b *Broker) Subscribe(channels []Channel) *Subscription {
	s := newSubscription(b)
	for _, ch := range channels {
		s.join(ch, nil)
	}
	if b.o.MoveAge > 0 {
		s.MoveAfter(b.o.MoveAge, b.o.MoveWithin)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s] = struct{}{}
	switch {
	case b.closed:
		s.finish()
	case !b.leave.IsZero():
		s.moveWithin(time.Until(b.leave))
	}
	return s
}

func (b *Broker) forget(s *Subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
	if b.empty != nil && len(b.subs) == 0 {
		close(b.empty)
		b.empty = nil
	}
}

// Drain tells every subscription to move within the window and ends each at a
// moment of its own, spread over it. It returns when all have gone, or with the
// context's error. Subscriptions that still come are treated the same.
func (b *Broker) Drain(ctx context.Context, window time.Duration) error {
	b.mu.Lock()
	if len(b.subs) == 0 {
		b.leave = time.Now()
		b.mu.Unlock()
		return nil
	}
	b.leave = time.Now().Add(window)
	empty := make(chan struct{})
	b.empty = empty
	for s := range b.subs {
		s.moveWithin(window)
	}
	b.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends every subscription and waits for the broker's goroutines. It may be
// called again.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	for s := range b.subs {
		s.finish()
	}
	b.mu.Unlock()
	b.stop()
	b.wg.Wait()
	b.pumps.close(b.outlets())
}

// Stats is a moment's picture; it costs a pass over the tails.
func (b *Broker) Stats() Stats {
	st := Stats{Bytes: int(b.bytes.Load())}
	b.mu.Lock()
	st.Subscriptions = len(b.subs)
	b.mu.Unlock()
	for _, p := range b.parts {
		st.Stale = st.Stale || p.state.Load().stale
		for _, t := range p.allTails() {
			st.Tails++
			t.mu.Lock()
			if len(t.members) > 0 {
				st.Channels++
			}
			t.mu.Unlock()
		}
	}
	return st
}

type noMeter struct{}

func (noMeter) Arrived(time.Duration)        {}
func (noMeter) Delivered(int, time.Duration) {}
func (noMeter) GapTold(stream.Reason)        {}
func (noMeter) CatchUpRead()                 {}
func (noMeter) FeedLag(time.Duration)        {}
