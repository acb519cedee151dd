package delivery

import (
	"time"

	"rejoin/stream"
)

// liveMargin covers the error of the log's clock as it is known here: a message
// of a moment before may come too, one published after the request must.
const liveMargin = 2 * time.Millisecond

// begin finds the position to start from; false while the log is asked.
func (m *member) begin(c *chain) bool {
	switch m.start.kind {
	case startAfter:
		m.startAt(m.start.id, m.start.id == stream.Earliest)
	case startLost:
		m.gap, m.gapOpen = &stream.Gap{Channel: m.tail.channel, Reason: stream.Reset}, true
		m.startAt(stream.Earliest, true)
	case startSince:
		return m.beginAtTime(m.start.since)
	case startRewind:
		return m.beginRewind(c)
	default:
		return m.beginLive()
	}
	return true
}

// startAt sets the position reading starts from.
func (m *member) startAt(pos stream.ID, free bool) {
	m.begun, m.pos, m.cursor, m.free = true, pos, pos, free
}

// beginLiveNow, at the request itself, starts at the tail's end, or at what was
// answered here before the request if the tail has still to get there.
func (m *member) beginLiveNow() {
	if c := m.tail.chain.Load(); m.start.kind == startLive && m.confirmed(c) {
		m.startAt(later(c.end(), m.known), false)
		if c.end().Less(m.known) {
			m.goAhead(c.era)
			m.place(0)
		}
	}
}

// beginLive, when the tail was cold or the log away at the request, starts at
// the time of the request. (The tail's end as it is now would skip what came
// since.)
func (m *member) beginLive() bool {
	if !m.beginAtTime(m.at.Add(-liveMargin)) {
		return false
	}
	if m.pos.Less(m.known) {
		m.startAt(m.known, false)
	}
	return true
}

// beginAtTime starts behind the newest entry older than t.
func (m *member) beginAtTime(t time.Time) bool {
	id := stream.AtTime(t)
	if id.IsZero() {
		m.startAt(stream.Earliest, true)
		return true
	}
	pg := m.before(id, 1)
	switch {
	case pg == nil:
		return false
	case len(pg.recs) > 0:
		m.startAt(pg.recs[len(pg.recs)-1].ID, false)
	case lastOf(&pg.Page).Less(id):
		m.startAt(lastOf(&pg.Page), false) // all of it is older, and gone
	default:
		m.startAt(stream.Earliest, true) // all that is retained is newer
	}
	return true
}

// beginRewind starts with the newest n entries: from the chain if it has them,
// else it walks down the log, a page at a time.
func (m *member) beginRewind(c *chain) bool {
	if m.rewound == nil && m.ask == nil {
		m.left = m.start.n
		if m.confirmed(c) && (len(c.recs) >= m.left || c.bottom) {
			if k := len(c.recs) - m.left; k > 0 {
				m.startAt(c.recs[k-1].ID, false)
			} else {
				m.startAt(c.base, false)
			}
			return true
		}
	}
	below := stream.MaxID
	if m.rewound != nil {
		below = m.rewound.ID
	}
	pg := m.before(below, min(m.left, pageEntries))
	if pg == nil {
		return false
	}
	if n := len(pg.recs); n > 0 {
		m.left -= n
		m.rewound = pg.recs[0]
		if m.left > 0 && pg.More {
			return m.beginRewind(c)
		}
	}
	first := m.rewound
	m.rewound = nil
	if first == nil {
		m.startAt(lastOf(&pg.Page), false)
		return true
	}
	pos, ok := first.Before()
	if !ok { // the first of a life: nothing proves what stands before it
		pos = stream.ID{MS: first.ID.MS, N: first.ID.N - 1}
	}
	m.startAt(pos, !ok)
	return true
}

// before asks for the newest entries below id; nil while there is no answer.
func (m *member) before(id stream.ID, limit int) *page {
	if m.ask == nil {
		m.ask, _ = m.tail.part.ask(wantKey{tail: m.tail, kind: wantBefore, id: id, limit: limit}, m.sub)
	}
	_, pg := m.answer()
	if pg == nil || pg.Err != nil {
		return nil
	}
	return pg
}
