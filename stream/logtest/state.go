package logtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rejoin/stream"
)

// message is one that the log took, by the model's own number: 0, 1, 2 … in the
// order of the answers. The number is its payload.
type message struct {
	number int
	id     stream.ID
	life   uint64
}

// state is what the store should hold: all of it can be saved and come back.
type state struct {
	// chain is every message the store's present knows to have been, oldest
	// first, whether it is still stored or not: what was saved with it,
	// never what was lost.
	chain  []message
	stored int // chain[stored:] is what is stored
	last   stream.ID
	life   uint64
	// gone: the stream's key is not there, only the small key remembers last.
	gone bool
	// small: the small key is there. Without it, last and life are found again
	// from the stream.
	small   bool
	foreign bool // others have written into the stream
	// holed: with the small key lost, a foreign entry was taken for the end, so
	// the counter has a hole.
	holed   bool
	answers map[string]stream.ID
	touched time.Time // last append or delete, for stores with a TTL in the model
}

func (s state) clone() state {
	s.chain = slices.Clone(s.chain)
	s.answers = maps.Clone(s.answers)
	return s
}

// lost is what the model knows of a message that a fault took out of the chain.
type lost uint8

const (
	// open: nothing was appended since. A reader whose own place survived
	// cannot know yet.
	open lost = iota + 1
	// noticed: a server that knew more began a new life; every reader from
	// before must be told.
	noticed
	// restarted: the same, and nobody knew any more: n is 1 again, which a
	// reader from before the first cannot tell from the first time.
	restarted
	// silent: servers that had all forgotten went on as if nothing was. A
	// reader whose own place survived cannot know.
	silent
)

// expire forgets the channel when it has been silent for its time.
func (m *model) expire() {
	s := &m.state
	if m.faults != nil || s.last.IsZero() {
		return
	}
	if now := m.logs[0].Now(); len(m.served()) == 0 && !now.Before(s.touched.Add(m.retention.ChannelTTL)) {
		m.note("  the channel is forgotten")
		m.replace(state{answers: s.answers})
		clear(m.known)
	}
}

// replace puts another state in the store's place: what is in the chain now and
// not in the other is lost by a fault; what comes back is not lost any more.
func (m *model) replace(s state) {
	has := map[int]bool{}
	for _, msg := range s.chain {
		has[msg.number] = true
		delete(m.lost, msg.number)
	}
	any := false
	for _, msg := range m.state.chain {
		if !has[msg.number] {
			m.lost[msg.number] = open
			any = true
		}
	}
	for n, l := range m.lost {
		if l == noticed || l == restarted { // what told of it may be lost itself
			m.lost[n] = open
		}
	}
	if m.state.last != s.last || len(m.state.chain) != len(s.chain) || any {
		m.disturbedAt = m.steps
	}
	m.state = s
}

func (m *model) delete(server int) error {
	if s := &m.state; !s.last.IsZero() {
		s.stored = len(s.chain)
		s.touched, s.small = m.logs[0].Now(), true
	}
	return m.logs[server].Delete(m.ctx, m.channel)
}

// trim leaves the newest few of what is stored.
func (m *model) trim(keep int) error {
	s := &m.state
	if len(s.chain)-s.stored <= keep {
		return nil
	}
	s.stored = len(s.chain) - keep
	oldest := stream.ID{MS: s.last.MS + 1}
	if keep > 0 {
		oldest = s.chain[s.stored].id
	}
	m.note("  only those from %s stay", short(oldest))
	return first(m.faults.Trim(m.channel, oldest), m.found())
}

// found looks up last and life when the small key is not there to tell them.
// With an entry of ours in the stream, or the empty stream, nothing is lost;
// without is a wipe. Foreign entries may be taken for the end, and the life is a
// guess without an entry.
func (m *model) found() error {
	s := &m.state
	if s.small || s.last.IsZero() {
		return nil
	}
	p, err := m.logs[0].Read(m.ctx, stream.Query{Channel: m.channel, After: stream.MaxID, Limit: 1})
	if err != nil {
		return err
	}
	m.raise(0, p.Last)
	bare := s.stored == len(s.chain)
	if bare && (s.gone && !s.foreign || s.foreign && p.Last.IsZero()) {
		m.note("  which is a wipe")
		m.replace(state{answers: s.answers, foreign: s.foreign})
		if !p.Last.IsZero() {
			return fmt.Errorf("the last id is %v, and nothing is left to tell it", p.Last)
		}
		return nil
	}
	if p.Last != s.last && !s.foreign {
		return fmt.Errorf("the last id is %v, it was %v", p.Last, s.last)
	}
	if p.Life != s.life && !bare {
		return fmt.Errorf("the life is %v, it was %v", p.Life, s.life)
	}
	if bare || p.Last != s.last {
		m.disturbedAt = m.steps
	}
	if p.Last != s.last {
		s.holed = true
		m.taken(p.Last)
	}
	s.last, s.life = p.Last, p.Life
	return nil
}

// raise notes what a server has read.
func (m *model) raise(server int, id stream.ID) {
	if m.known[server].Less(id) {
		m.known[server] = id
	}
}

// served is what a reader may be given: of what is stored, the newest by n and
// by age.
func (m *model) served() []message {
	s := &m.state
	list := s.chain[s.stored:]
	for len(list) > 0 {
		old := list[0].id.N+uint64(m.retention.MaxMessages) <= s.last.N
		if m.faults == nil {
			old = old || !m.logs[0].Now().Before(list[0].id.Time().Add(m.retention.MaxAge))
		}
		if !old {
			break
		}
		list = list[1:]
	}
	return list
}
