package delivery

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rejoin/stream"
)

// Subscription is one connection's reading of its channels. Its methods may be
// called from anywhere, Next by one goroutine at a time.
type Subscription struct {
	b      *Broker
	born   time.Time
	wake   chan struct{}          // one slot, never closed
	outlet atomic.Pointer[Outlet] // is poked instead of wake, once there is one

	// mu guards the following.
	mu      sync.Mutex
	members []*member
	removed []Item        // unsubscribed, to be told
	items   []Item        // of the last batch, used again
	turn    int           // the member that is served first next time
	ready   bool          // ready was told
	move    time.Duration // to be told; 0: nothing
	age     *time.Timer   // tells the move of an old connection
	timer   *time.Timer   // ends the subscription after a move
	expired bool          // to be told
	expiry  *time.Timer   // ends the subscription with its client's right to read
	done    bool
	closed  bool

	own []Item // of the last batch, used again; Next's
}

// Errors of [Subscription.Add] and [Subscription.Remove].
var (
	ErrSubscribed    = errors.New("delivery: the connection reads this channel already")
	ErrNotSubscribed = errors.New("delivery: the connection does not read this channel")
)

func newSubscription(b *Broker) *Subscription {
	return &Subscription{b: b, born: time.Now(), wake: make(chan struct{}, 1)}
}

// Add begins reading a channel more. Subscribed, with the tag, is told in its
// place, before the channel's messages.
func (s *Subscription) Add(ch Channel, tag any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(ch.Name) >= 0 {
		return ErrSubscribed
	}
	if !s.closed {
		s.join(ch, tag).added = true
	}
	return nil
}

// Remove ends reading a channel. Unsubscribed, with the tag, is told in its
// place: nothing of the channel comes behind it.
func (s *Subscription) Remove(channel string, tag any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(channel)
	if i < 0 {
		return ErrNotSubscribed
	}
	if !s.closed {
		s.members[i].leave()
		s.members = slices.Delete(s.members, i, i+1)
		s.removed = append(s.removed, Item{Kind: Unsubscribed, Channel: channel, Tag: tag})
		s.poke()
	}
	return nil
}

func (s *Subscription) find(channel string) int {
	return slices.IndexFunc(s.members, func(m *member) bool { return m.tail.channel == channel })
}

// join registers interest in a channel; s.mu is held, or s is not shared yet.
func (s *Subscription) join(ch Channel, tag any) *member {
	m := &member{sub: s, start: ch.Start, tag: tag, at: s.b.log.Now(), known: s.b.log.Known(ch.Name)}
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
	return m
}

func (s *Subscription) poke() {
	if o := s.outlet.Load(); o != nil {
		o.Poke()
		return
	}
	kick(s.wake)
}

// Wake has a value when Next may have something to give. It is never closed.
func (s *Subscription) Wake() <-chan struct{} { return s.wake }

// Next returns what there is to send now, about maxBytes of messages (at least
// one when there is one; see [Record.Bytes]), never blocking and never asking
// for more than its client can be sent: what is not taken stays in the log.
func (s *Subscription) Next(maxBytes int) Batch {
	b := s.next(s.own, maxBytes)
	s.own = b.Items
	return b
}

// next is Next into a slice of the caller's.
func (s *Subscription) next(items []Item, maxBytes int) Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(items)
	s.items = items[:0]
	defer func() { s.items = nil }()
	if s.move > 0 {
		s.items = append(s.items, Item{Kind: Move, Within: s.move})
		s.move = 0
	}
	if s.expired {
		s.items = append(s.items, Item{Kind: Expired})
		s.expired = false
	}
	if s.done || s.closed {
		return Batch{Items: s.items, Done: true}
	}
	s.tellStale()
	s.items = append(s.items, s.removed...)
	s.removed = nil
	if !s.ready && !s.tellReady() {
		return Batch{Items: s.items, Done: s.done}
	}
	for i := range s.members {
		k := (s.turn + i) % len(s.members)
		m := s.members[k]
		if !m.told && !s.tellSubscribed(m) {
			continue
		}
		for m.status = s.give(m, &maxBytes); maxBytes > 0 && m.status.more(); {
			m.status = s.give(m, &maxBytes)
		}
		if m.status.more() {
			s.turn = k + 1
			return Batch{Items: s.items, More: true}
		}
		if m.status == failed {
			s.fail(m)
			return Batch{Items: s.items, Done: true}
		}
	}
	if s.done = s.ended(); !s.done {
		s.tellLive()
	}
	return Batch{Items: s.items, Done: s.done}
}

// more reports whether the member may have more to give at once.
func (st status) more() bool { return st == telling || st == sending || st == ending }

// give adds the member's next items and says what they were.
func (s *Subscription) give(m *member, budget *int) status {
	st, recs := m.advance()
	switch st {
	case telling:
		s.b.o.Meter.GapTold(m.gap.Reason)
		s.items = append(s.items, Item{Kind: Gap, Channel: m.tail.channel, Gap: m.gap, Pos: m.pos})
		m.gap = nil
	case ending:
		m.ended = true
		s.items = append(s.items, Item{Kind: End, Channel: m.tail.channel, Pos: m.pos})
	case sending:
		n := 0
		for n < len(recs) && (n == 0 || *budget > 0) {
			r := recs[n]
			if r.End != stream.EndAlone {
				s.items = append(s.items, Item{Kind: Message, Channel: m.tail.channel, Record: r, Pos: r.ID})
			}
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

// ended reports whether every channel has told its end.
func (s *Subscription) ended() bool {
	return len(s.members) > 0 && !slices.ContainsFunc(s.members, func(m *member) bool { return !m.ended })
}

// fail ends the subscription with a member's error.
func (s *Subscription) fail(m *member) {
	s.done = true
	s.items = append(s.items, Item{Kind: Error, Channel: m.tail.channel, Err: m.err})
}

// tellReady tells ready once the position of every channel that the
// subscription began with is known; it reports whether it did. When some parts
// of the log are away and others are not, a channel that came with a cursor does
// not hold up the rest: it stands at its cursor, which is judged later.
func (s *Subscription) tellReady() bool {
	var held []*member
	began := 0 // members that the subscription began with
	for _, m := range s.members {
		if m.added {
			continue
		}
		began++
		if st, _ := m.advance(); st == failed {
			s.fail(m)
			return false
		}
		if m.placed {
			continue
		}
		if !m.begun || !m.tail.part.state.Load().stale {
			return false
		}
		held = append(held, m)
	}
	if len(held) > 0 && len(held) == began {
		return false
	}
	for _, m := range held {
		m.place(0)
	}
	s.ready = true
	ready := make([]ReadyChannel, 0, len(s.members))
	var behind []string
	for _, m := range s.members {
		if m.added {
			continue
		}
		ready = append(ready, m.ready())
		m.told = true
		if m.replay > 0 {
			m.state = Replaying
			behind = append(behind, m.tail.channel)
		}
	}
	s.items = append(s.items, Item{Kind: Ready, Ready: ready})
	if len(behind) > 0 {
		s.tell(State{State: Replaying, Since: time.Now()}, behind)
	}
	return true
}

// tellSubscribed tells of a channel that was added, once its position is known;
// it reports whether it did.
func (s *Subscription) tellSubscribed(m *member) bool {
	m.status, _ = m.advance()
	if !m.placed || m.status == failed {
		return m.status == failed
	}
	m.told = true
	s.items = append(s.items, Item{Kind: Subscribed, Channel: m.tail.channel, Ready: []ReadyChannel{m.ready()}, Tag: m.tag})
	if m.replay > 0 {
		m.state = Replaying
		s.tell(State{State: Replaying, Since: time.Now()}, []string{m.tail.channel})
	}
	return true
}

func (m *member) ready() ReadyChannel {
	return ReadyChannel{Channel: m.tail.channel, Cursor: m.cursor, Replay: m.replay}
}

// tell adds a change of state of the channels named; all of the connection's
// go without names.
func (s *Subscription) tell(st State, names []string) {
	if len(names) < len(s.members) {
		st.Channels = names
	}
	s.items = append(s.items, Item{Kind: StateChange, State: &st})
}

// tellStale tells of channels whose part of the log has stopped answering.
func (s *Subscription) tellStale() {
	var names []string
	var since time.Time
	for _, m := range s.members {
		if st := m.tail.part.state.Load(); st.stale && m.state != Stale {
			m.state = Stale
			names = append(names, m.tail.channel)
			since = st.since
		}
	}
	if len(names) > 0 {
		s.tell(State{State: Stale, Since: since}, names)
	}
}

// tellLive tells live of the channels that were not, once all of them whose
// part of the log answers have got to its end.
func (s *Subscription) tellLive() {
	var names []string
	for _, m := range s.members {
		if m.state == Live || m.tail.part.state.Load().stale {
			continue
		}
		if m.status != atEnd {
			return
		}
		names = append(names, m.tail.channel)
	}
	if len(names) == 0 {
		return
	}
	for _, m := range s.members {
		if m.status == atEnd {
			m.state = Live
		}
	}
	s.tell(State{State: Live, Since: time.Now()}, names)
}

// Delivered accounts for a batch that was written to the client.
func (s *Subscription) Delivered(batch Batch) { s.account(tallyOf(batch.Items)) }

// tally is what is accounted of a batch: its messages, and when the first came.
type tally struct {
	messages int
	arrived  time.Time
}

func tallyOf(items []Item) (t tally) {
	for i := range items {
		if r := items[i].Record; r != nil {
			if t.messages == 0 {
				t.arrived = r.Arrived
			}
			t.messages++
		}
	}
	return t
}

// account tells the meter of messages that were written.
func (s *Subscription) account(t tally) {
	if t.messages == 0 {
		return
	}
	if t.arrived.Before(s.born) {
		t.arrived = s.born
	}
	s.b.o.Meter.Delivered(t.messages, time.Since(t.arrived))
}

// MoveAfter has the client told to move when the connection is about that old
// (±20%, so that those that came together do not go together), within the time
// given, and ends the subscription in it.
func (s *Subscription) MoveAfter(age, within time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.age != nil {
		return
	}
	s.age = time.AfterFunc(age*4/5+rand.N(max(age*2/5, 1)), func() { s.moveWithin(within) })
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

// ExpireAt has the client told at that moment that its right to read has ended,
// ahead of all that is still to be sent, and ends the subscription. A zero time is
// never. Called again, the new moment counts.
func (s *Subscription) ExpireAt(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	if !t.IsZero() && !s.closed {
		s.expiry = time.AfterFunc(time.Until(t), s.expire)
	}
}

func (s *Subscription) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.expired, s.done = true, true
		s.poke()
	}
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
	for _, t := range []*time.Timer{s.age, s.timer, s.expiry} {
		if t != nil {
			t.Stop()
		}
	}
	for _, m := range s.members {
		m.leave()
	}
	s.mu.Unlock()
	s.b.forget(s)
}
