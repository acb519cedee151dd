package delivery

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Subscription is one connection's reading of its channels. Next, Delivered and
// Close may be called from anywhere, Next by one goroutine at a time.
type Subscription struct {
	b    *Broker
	wake chan struct{} // one slot, never closed

	// mu guards the following.
	mu      sync.Mutex
	members []*member
	items   []Item // of the last batch, used again
	turn    int    // the member that is served first next time
	ready   bool   // ready was told
	told    StateName
	wasLive bool          // live was told once
	move    time.Duration // to be told; 0: nothing
	timer   *time.Timer   // ends the subscription after a move
	done    bool
	closed  bool
}

func newSubscription(b *Broker) *Subscription {
	return &Subscription{b: b, wake: make(chan struct{}, 1)}
}

// add registers interest in a channel; the subscription is not shared yet.
func (s *Subscription) add(ch Channel) {
	m := &member{sub: s, start: ch.Start, at: s.b.log.Now(), known: s.b.log.Known(ch.Name)}
	p := s.b.parts[s.b.log.Part(ch.Name)]
	for {
		m.tail = p.tail(ch.Name)
		if m.tail.join(m) {
			break
		}
		p.remove(m.tail) // it died between the two calls
	}
	m.beginLiveNow()
	s.members = append(s.members, m)
	s.poke()
}

func (s *Subscription) poke() { kick(s.wake) }

// Wake has a value when Next may have something to give. It is never closed.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Next returns what there is to send now, about maxBytes of messages (at least
// one when there is one; see [Record.Bytes]), never blocking and never asking
// for more than its client can be sent: what is not taken stays in the log.
func (s *Subscription) Next(maxBytes int) Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.items)
	s.items = s.items[:0]
	if s.move > 0 {
		s.items = append(s.items, Item{Kind: Move, Within: s.move})
		s.move = 0
	}
	if s.done || s.closed {
		return Batch{Items: s.items, Done: true}
	}
	s.tellStale()
	if !s.ready {
		if st := s.tellReady(); st != sending {
			return Batch{Items: s.items, Done: st == failed}
		}
	}
	caughtUp := true
	for i := range s.members {
		k := (s.turn + i) % len(s.members)
		m := s.members[k]
		st := waiting
		for st = s.give(m, &maxBytes); maxBytes > 0 && (st == telling || st == sending); {
			st = s.give(m, &maxBytes)
		}
		switch m.status = st; st {
		case failed:
			return s.fail(m)
		case telling, sending:
			s.turn = k + 1
			return Batch{Items: s.items, More: true}
		}
		caughtUp = caughtUp && st == atEnd
	}
	s.tellLive(caughtUp)
	return Batch{Items: s.items}
}

// give adds the member's next items and says how it stands: telling or sending
// when there may be more.
func (s *Subscription) give(m *member, budget *int) status {
	st, recs := m.advance()
	switch st {
	case telling:
		s.b.o.Meter.GapTold(m.gap.Reason)
		s.items = append(s.items, Item{Kind: Gap, Channel: m.tail.channel, Gap: m.gap, Pos: m.pos})
		m.gap = nil
	case sending:
		n := 0
		for n < len(recs) && (n == 0 || *budget > 0) {
			r := recs[n]
			s.items = append(s.items, Item{Kind: Message, Channel: m.tail.channel, Record: r, Pos: r.ID})
			*budget -= r.Bytes()
			n++
		}
		m.pos, m.free = recs[n-1].ID, false
		if len(m.page) > 0 {
			m.page = m.page[n:]
		}
	}
	return st
}

// fail ends the subscription with a member's error.
func (s *Subscription) fail(m *member) Batch {
	s.done = true
	s.items = append(s.items, Item{Kind: Error, Channel: m.tail.channel, Err: m.err})
	return Batch{Items: s.items, Done: true}
}

// tellReady tells ready once the position of every channel is known: sending
// when it did, failed when it cannot.
func (s *Subscription) tellReady() status {
	behind := false
	for _, m := range s.members {
		if st, _ := m.advance(); st == failed {
			s.fail(m)
			return failed
		}
		if !m.placed {
			return waiting
		}
		behind = behind || m.replay > 0
	}
	ready := make([]ReadyChannel, len(s.members))
	for i, m := range s.members {
		ready[i] = ReadyChannel{Channel: m.tail.channel, Cursor: m.cursor, Replay: m.replay}
	}
	s.ready = true
	s.items = append(s.items, Item{Kind: Ready, Ready: ready})
	if behind {
		s.told = Replaying
		s.tell(State{State: Replaying, Since: time.Now()})
	}
	return sending
}

func (s *Subscription) tell(st State) {
	s.items = append(s.items, Item{Kind: StateChange, State: &st})
}

// tellStale tells of channels whose part of the log has stopped answering.
func (s *Subscription) tellStale() {
	var names []string
	var since time.Time
	all := true
	for _, m := range s.members {
		st := m.tail.part.state.Load()
		if !st.stale {
			all = false
			continue
		}
		if !m.stale {
			m.stale = true
			names = append(names, m.tail.channel)
			since = st.since
		}
	}
	if len(names) == 0 {
		return
	}
	if all {
		names = nil
	}
	s.told = Stale
	s.tell(State{State: Stale, Since: since, Channels: names})
}

// tellLive tells live when every channel has got to the log's end; or of those
// that were stale and have, while others still are.
func (s *Subscription) tellLive(caughtUp bool) {
	if s.told == Live || len(s.members) == 0 {
		return
	}
	var back []string
	for _, m := range s.members {
		if m.stale && !m.tail.part.state.Load().stale {
			if m.status != atEnd {
				return
			}
			back = append(back, m.tail.channel)
		}
	}
	if !caughtUp && len(back) == 0 {
		return
	}
	for _, m := range s.members {
		m.stale = m.stale && m.status != atEnd
	}
	if caughtUp {
		if !s.wasLive || len(back) == len(s.members) {
			back = nil
		}
		s.told, s.wasLive = Live, true
	}
	s.tell(State{State: Live, Since: time.Now(), Channels: back})
}

// Delivered accounts for a batch that was written to the client.
func (s *Subscription) Delivered(batch Batch) {
	n := 0
	var first *Record
	for i := range batch.Items {
		if r := batch.Items[i].Record; r != nil {
			if first == nil {
				first = r
			}
			n++
		}
	}
	if n > 0 {
		s.b.o.Meter.Delivered(n, time.Since(first.Arrived))
	}
}

// moveWithin has the client told to move, and ends the subscription at a random
// moment of that time.
func (s *Subscription) moveWithin(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil || s.closed {
		return
	}
	d = max(d, time.Millisecond)
	s.move = d
	s.timer = time.AfterFunc(rand.N(d), s.finish)
	s.poke()
}

// finish makes the next batch the last.
func (s *Subscription) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	s.poke()
}

// Close ends the subscription; the broker forgets it. It may be called again.
func (s *Subscription) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	members := s.members
	s.mu.Unlock()
	for _, m := range members {
		m.tail.leave(m)
	}
	s.b.forget(s)
}
