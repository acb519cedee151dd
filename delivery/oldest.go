package delivery

import (
	"rejoin/stream"
)

// Cursor is the position that a client's cursor gave, ok is false when the
// start is another: live, rewind, since.
func (s Start) Cursor() (pos stream.ID, ok bool) { return s.id, s.kind == startAfter }

// Standing is how far a subscription has got that is read by Oldest.
type Standing uint8

const (
	// Behind: there is more, or the log has still to say whether there is.
	Behind Standing = iota
	// AtEnd: all there is has been given.
	AtEnd
	// Away: the same, but of channels whose part of the log does not answer
	// (for longer than a moment) nobody knows.
	Away
)

// Oldest is Next for a transport that gathers one answer and goes: at most so
// many messages, the oldest of all channels first. It never blocks either. It
// differs from Next in that
//   - Ready is told of each channel by itself, before anything else of it, and
//     a part of the log that is away does not hold up the channels of others;
//   - a gap is told only when the message behind it (if any) may come next;
//   - changes of state and Move are not told: the state is what it returns, and
//     a subscription that is to move ends at its moment.
//
// A subscription is read by Next or by Oldest, not by both.
func (s *Subscription) Oldest(most int) (Batch, Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.own)
	s.items = s.own[:0]
	defer func() { s.own, s.items = s.items, nil }()
	if s.done || s.closed {
		return Batch{Items: s.items, Done: true}, Behind
	}
	var few [4]head
	heads := few[:0]
	for _, m := range s.members {
		heads = append(heads, head{m: m})
		if h := &heads[len(heads)-1]; s.settle(h) == failed {
			s.fail(m)
			return Batch{Items: s.items, Done: true}, Behind
		}
	}
	first := oldest(heads)
	for ; first != nil && most > 0; first = oldest(heads) {
		most -= s.take(first)
		if first.status == failed {
			s.fail(first.m)
			return Batch{Items: s.items, Done: true}, Behind
		}
	}
	s.done = s.ended()
	return Batch{Items: s.items, More: first != nil, Done: s.done}, standing(heads)
}

// head is what a member would send next.
type head struct {
	m      *member
	status status
	id     stream.ID // telling, sending: of the next message
	recs   []*Record // sending
}

// oldest is the member whose next message is the oldest of all; nil when none
// has one, or it is not known yet.
func oldest(heads []head) *head {
	var first *head
	for i := range heads {
		h := &heads[i]
		switch {
		case h.status == waiting && !h.away():
			return nil // what it waits for may be older
		case h.status != telling && h.status != sending:
		case first == nil || h.id.Less(first.id):
			first = h
		}
	}
	return first
}

// away reports whether the member's part of the log does not answer.
func (h *head) away() bool { return h.m.tail.part.state.Load().stale }

func standing(heads []head) Standing {
	st := AtEnd
	for i := range heads {
		switch h := &heads[i]; {
		case h.status == atEnd:
		case h.status == waiting && h.away():
			st = Away
		default:
			return Behind
		}
	}
	return st
}

// settle finds what a member sends next, and tells what takes no room before it:
// ready, its end, a gap that no message is behind yet.
func (s *Subscription) settle(h *head) status {
	m := h.m
	for {
		h.status, h.recs = m.advance()
		switch {
		case h.status == failed:
			return failed
		case !m.placed:
			h.status = waiting
			return waiting
		case !m.told:
			m.told = true
			s.items = append(s.items, Item{Kind: Ready, Channel: m.tail.channel, Ready: []ReadyChannel{m.ready()}})
		}
		switch {
		case h.status == ending:
			m.ended = true
			s.items = append(s.items, Item{Kind: End, Channel: m.tail.channel, Pos: m.pos})
			continue
		case h.status == telling && m.gap.Next.IsZero():
			s.tellGap(m)
			continue
		case h.status == telling:
			h.id = m.gap.Next
		case h.status == sending:
			h.id = h.recs[0].ID
		}
		return h.status
	}
}

func (s *Subscription) tellGap(m *member) {
	s.b.o.Meter.GapTold(m.gap.Reason)
	s.items = append(s.items, Item{Kind: Gap, Channel: m.tail.channel, Gap: m.gap, Pos: m.pos})
	m.gap = nil
}

// take adds a member's gap or next message; it returns the number of messages.
func (s *Subscription) take(h *head) int {
	m := h.m
	if h.status == telling {
		s.tellGap(m)
		s.settle(h)
		return 0
	}
	r, n := h.recs[0], 0
	m.pos, m.free = r.ID, false
	if len(m.page) > 0 {
		m.page = m.page[1:]
	}
	if r.End != stream.EndAlone {
		s.items = append(s.items, Item{Kind: Message, Channel: m.tail.channel, Record: r, Pos: r.ID})
		n = 1
	}
	if h.recs = h.recs[1:]; len(h.recs) > 0 {
		h.id = h.recs[0].ID
	} else {
		s.settle(h)
	}
	return n
}

// Answered accounts for messages, in the order they were given, that were
// written to the client.
func (s *Subscription) Answered(messages []*Record) {
	if n := len(messages); n > 0 {
		s.account(tally{messages: n, arrived: messages[0].Arrived})
	}
}
