package delivery

import (
	"time"

	"rejoin/stream"
)

// member is one channel of a subscription: a cursor, at times a doubt, and no
// state "joined". It belongs to its subscription and is guarded by its mu;
// index alone is guarded by the tail's.
type member struct {
	sub    *Subscription
	tail   *tail
	index  int
	err    error     // the channel cannot be read
	state  StateName // what its reader was told last
	status status    // what Next found last
	added  bool      // it came by Add: subscribed tells of it, not ready
	told   bool      // ready or subscribed was told of it
	ended  bool      // its end was told
	tag    any       // of Add, for subscribed

	start   Start
	at      time.Time // the log's clock at the request
	known   stream.ID // the newest id answered here before the request
	left    int       // rewind: how many are still to be walked back over
	rewound *Record   // rewind: the oldest entry walked over

	begun  bool      // pos means something
	placed bool      // cursor and replay, for ready, are known
	cursor stream.ID // where reading started
	replay uint64    // messages between cursor and the head at that time

	pos  stream.ID // the last id sent, or where reading goes on after
	free bool      // the next entry is not checked against pos
	page []*Record // read from the log, to be sent next

	ask      *want  // what it waits for
	doubting bool   // pos was not found in the tail
	doubt    uint64 // the newest round of reads when that began

	gap     *stream.Gap // to be told next
	gapOpen bool        // its Next is not known yet

	// ahead: the log itself said that pos is its end, in that era of a tail
	// that has not got there yet.
	ahead    bool
	aheadEra uint64
	// aheadLooks is how often the tail had been looked at when that was said: two
	// looks later it must be there, or the log judges again.
	aheadLooks uint64
}

// status is what advance found.
type status uint8

const (
	waiting status = iota // for the log; the subscription will be woken
	telling               // m.gap is to be told
	sending               // records are to be sent
	atEnd                 // caught up with the log
	ending                // the channel's end is to be told
	failed                // m.err ends the subscription
)

// pageSlack is how much longer than retention a page in hand is served by age.
const pageSlack = 2 * time.Second

// advance finds what the member can send next. It never blocks: what it has to
// ask the log is asked in the background.
func (m *member) advance() (status, []*Record) {
	for {
		c := m.tail.chain.Load()
		if c.err != nil {
			m.err = c.err
		}
		switch {
		case m.err != nil:
			return failed, nil
		case !m.begun:
			if !m.begin(c) {
				if m.err != nil {
					continue
				}
				return waiting, nil
			}
		case m.gap != nil && !m.gapOpen:
			return telling, nil
		}
		if !m.free {
			if i, ok := c.find(m.pos); ok {
				recs := c.recs[i:]
				if len(recs) == 0 || !recs[0].ID.Less(m.tail.oldest()) {
					return m.joined(c, recs)
				}
				m.page = nil // retention has passed it by: the log judges
			}
		}
		if len(m.page) > 0 {
			first := m.page[0]
			if m.served(first, c) || m.free && time.Since(first.Arrived) < pageSlack {
				return sending, m.page
			}
			if m.page = nil; m.free {
				// Held for so long that it is gone: the rule tells how much.
				var ok bool
				if m.pos, ok = first.Before(); !ok {
					m.pos = stream.ID{MS: first.ID.MS, N: first.ID.N - 1}
				}
				m.free = false
			}
		}
		if m.ask == nil {
			if !c.known {
				return waiting, nil // the look at a cold tail may be all it takes
			}
			if m.ahead && m.aheadEra == c.era && c.looked < m.aheadLooks+2 && c.end().Less(m.pos) {
				if c.looked > m.aheadLooks {
					m.tail.part.look(m.tail) // that look may have begun before
				}
				return waiting, nil // the tail is on its way there
			}
			m.ahead = false
			m.request(c)
		}
		w, pg := m.answer()
		if pg == nil {
			return waiting, nil
		}
		m.take(w, pg)
	}
}

// joined is the member at the tail: the one place where live reading and the
// end of catching up happen.
func (m *member) joined(c *chain, recs []*Record) (status, []*Record) {
	m.page, m.ask, m.doubting, m.ahead = nil, nil, false, false
	epoch := m.tail.part.state.Load().epoch
	if epoch == 0 || c.epoch == epoch {
		m.place(uint64(len(recs)))
	}
	switch {
	case len(recs) > 0:
		return sending, recs
	case c.ended && !m.ended:
		return ending, nil
	case epoch != 0 && c.epoch == epoch:
		return atEnd, nil
	}
	return waiting, nil // whether this is the end, a look will say
}

// confirmed reports whether the chain's end was read in the session that is up.
func (m *member) confirmed(c *chain) bool {
	st := m.tail.part.state.Load()
	return c.known && st.epoch != 0 && c.epoch == st.epoch
}

// served reports whether retention, and no deletion, still covers a record of a
// page in hand.
func (m *member) served(r *Record, c *chain) bool {
	if c.known && r.ID.N+uint64(m.tail.keep.MaxMessages) <= c.end().N {
		return false
	}
	return c.floor.Less(r.ID) && !r.ID.Less(stream.AtTime(m.tail.oldest().Time().Add(-pageSlack)))
}

// place settles what ready says of the channel.
func (m *member) place(replay uint64) {
	if !m.placed {
		m.placed, m.replay = true, replay
	}
}

// request asks the log for what stands behind pos: by growing the tail down to
// it if there is room, for all who come after; else by a page.
func (m *member) request(c *chain) {
	key := wantKey{tail: m.tail, kind: wantAfter, id: m.pos, limit: pageEntries - int(m.pos.N%pageEntries)}
	if n := m.stretch(c); n > 0 {
		key = wantKey{tail: m.tail, kind: wantDown, id: c.base, limit: n}
	}
	w, round := m.tail.part.ask(key, m.sub)
	if !m.doubting {
		m.doubting, m.doubt = true, round
	}
	m.ask = w
}

// stretch is how many entries to read below the tail's base to reach pos; 0 if
// that is not the way.
func (m *member) stretch(c *chain) int {
	if m.free || c.bottom || m.pos.N >= c.base.N || m.pos.N+uint64(m.tail.keep.MaxMessages) < c.end().N {
		return 0
	}
	n := int(c.base.N - m.pos.N)
	each := 1 << 10 // a guess
	if len(c.recs) > 0 {
		each = c.bytes / len(c.recs)
	}
	b := m.tail.part.b
	if c.bytes+n*each > b.o.TailBytes || b.bytes.Load()+int64(n*each) > int64(b.o.TotalBytes) {
		return 0
	}
	// The base itself comes too; round sizes are shared by readers at different
	// distances.
	return min((n/pageEntries+1)*pageEntries, stretchEntries) + 1
}

// answer is the answer to what was asked, nil while there is none.
func (m *member) answer() (*want, *page) {
	w := m.ask
	pg := w.result.Load()
	if pg != nil {
		m.ask = nil
		if pg.Err != nil {
			m.err = pg.Err
		}
	}
	return w, pg
}

// take works an answer in.
func (m *member) take(w *want, pg *page) {
	if w.key.kind != wantAfter || w.key.id != m.pos || pg.Err != nil {
		return // the tail has grown, or the question is no longer the same
	}
	head := later(lastOf(&pg.Page), m.pos)
	if n := len(pg.recs); n > 0 {
		head = later(head, pg.recs[n-1].ID)
	}
	if m.free { // from the oldest
		m.fromOldest(w, pg, head)
		return
	}
	v := stream.Resume(m.pos, pg.Page)
	if v.Gap != nil && w.round <= m.doubt {
		return // read before the doubt arose: ask again
	}
	m.doubting = false
	m.gap, m.pos, m.free = v.Gap, v.From, v.Free
	m.gapOpen = v.Gap != nil && v.From == stream.Earliest
	if m.gapOpen {
		return
	}
	if m.page = pg.recs; len(m.page) == 0 {
		m.atLogEnd(w)
		m.place(0)
		return
	}
	m.place(head.N - m.page[0].ID.N + 1)
}

// fromOldest begins with everything retained.
func (m *member) fromOldest(w *want, pg *page, head stream.ID) {
	m.doubting = false
	if m.page = pg.recs; len(m.page) == 0 {
		m.pos, m.free = lastOf(&pg.Page), false
		m.atLogEnd(w)
		if m.gap == nil && !m.placed {
			m.cursor = m.pos
		}
		m.place(0)
	} else {
		if m.gap != nil {
			m.gap.Next = m.page[0].ID
		}
		m.place(head.N - m.page[0].ID.N + 1)
	}
	m.gapOpen = false
}

// atLogEnd notes that the log itself said pos is its end; the tail may not be
// there yet.
func (m *member) atLogEnd(w *want) {
	m.goAhead(w.era)
}

// goAhead waits for the tail to get to pos, in this era of it.
func (m *member) goAhead(era uint64) {
	m.ahead, m.aheadEra, m.aheadLooks = true, era, m.tail.chain.Load().looked
	m.tail.part.look(m.tail)
}

// leave takes the member out of its tail, and what it asked for off the list.
func (m *member) leave() {
	if m.ask != nil {
		m.tail.part.unask(m.ask, m.sub)
	}
	m.tail.leave(m)
}

func later(a, b stream.ID) stream.ID {
	if a.Less(b) {
		return b
	}
	return a
}
