package logtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"rejoin/stream"
)

// reader is one reader, who keeps a cursor, and beside it what the model knows
// that reader to be owed.
type reader struct {
	model *model

	joined bool
	cursor stream.ID
	// at is the number of the message the cursor stands for, or one of these.
	at int
	// settled: of the messages before this number it was given each, or told;
	// that was in step asOf.
	settled, asOf int
	// pending are messages before settled that a fault took, of which nothing
	// could be told yet.
	pending []int
	had     map[int]bool // given, since it was last told reset
}

const (
	atEarliest = -1
	atFirst    = -2 // before the first, 1-0
	atNothing  = -3 // an id that no message ever had
)

// event is one thing that a reader sees: a message or a gap.
type event struct {
	number int // of the message
	gap    *stream.Gap
	at     int // of the message the gap's cursor stands for
}

// join begins anew: at the earliest, or live from where the log is now.
func (r *reader) join(earliest bool) error {
	m := r.model
	*r = reader{model: m, joined: true, at: atEarliest, settled: m.count, asOf: m.steps, had: map[int]bool{}}
	if earliest {
		return nil
	}
	p, err := m.logs[0].Read(m.ctx, stream.Query{Channel: m.channel, After: stream.MaxID, Limit: 1})
	if err != nil {
		return err
	}
	m.raise(0, p.Last)
	r.pin(p.Last)
	m.note("  a reader is live at %s", short(r.cursor))
	return nil
}

// pin moves the cursor to the log's end.
func (r *reader) pin(last stream.ID) {
	r.cursor, r.at = last, r.numberOf(last)
	if last.IsZero() {
		r.cursor, r.at = stream.BeforeFirst, atFirst
	}
}

// numberOf is the newest message of that id.
func (r *reader) numberOf(id stream.ID) int {
	switch id {
	case stream.Earliest:
		return atEarliest
	case stream.BeforeFirst:
		return atFirst
	}
	for _, msg := range slices.Backward(r.model.state.chain) {
		if msg.id == id {
			return msg.number
		}
	}
	for _, msg := range slices.Backward(r.model.messages) {
		if msg.id == id {
			return msg.number
		}
	}
	return atNothing
}

// read reads to the end, as a server serves it, and checks all of it.
func (r *reader) read(limit int, live bool) error {
	if !r.joined {
		if err := r.join(false); err != nil {
			return err
		}
	}
	start := *r
	events, err := r.follow(limit, live)
	for _, e := range events {
		if e.gap != nil {
			r.model.note("  told %s, %d missed, next %s", e.gap.Reason, e.gap.Missed, short(e.gap.Next))
		} else {
			r.model.note("  given %d", e.number)
		}
	}
	if err == nil {
		err = r.check(&start, events)
	}
	if err != nil {
		return fmt.Errorf("reader at %v (message %d): %w", start.cursor, start.at, err)
	}
	return nil
}

// maxReads bounds a read to the end: no sequence holds so many messages.
const maxReads = 300

// follow reads to the end. A live reader goes on along the chain as long as it
// holds and is judged when it breaks; one that comes back is judged first.
func (r *reader) follow(limit int, live bool) (events []event, err error) {
	m := r.model
	for reads := range maxReads {
		l := m.logs[reads%len(m.logs)]
		q := stream.Query{Channel: m.channel, After: r.cursor, Limit: limit}
		if limit == 5 { // bounded by bytes alone: four at a time
			q.Limit, q.MaxBytes = 100, 4*stream.EntryOverhead
		}
		if live && r.cursor != stream.Earliest {
			q.Follow = true
			p, err := l.Read(m.ctx, q)
			if err != nil {
				return events, err
			}
			if n := r.take(p.Entries, false, &events); n > 0 {
				continue
			}
			q.Follow = false
		}
		p, err := l.Read(m.ctx, q)
		if err != nil {
			return events, err
		}
		m.raise(reads%len(m.logs), p.Last)
		v := m.rule.Resume(r.cursor, p)
		if v.Gap != nil {
			if v.Gap.After != r.cursor || v.Gap.Channel != m.channel {
				return events, fmt.Errorf("the gap is told to %s at %v", v.Gap.Channel, v.Gap.After)
			}
			events = append(events, event{gap: v.Gap, at: r.at})
		}
		if v.From == stream.Earliest && r.cursor != stream.Earliest {
			q.After = v.From
			if p, err = l.Read(m.ctx, q); err != nil {
				return events, err
			}
		}
		if v.From != r.cursor {
			r.cursor, r.at = v.From, r.numberOf(v.From)
		}
		n := r.take(p.Entries, v.Free, &events)
		switch {
		case len(p.Entries) == 0 && r.cursor == stream.Earliest:
			r.pin(p.Last)
			return events, nil
		case n == len(p.Entries) && !p.More && (r.cursor == p.Last || p.Last.IsZero()):
			return events, nil
		}
		live = live || n > 0 // what follows is a reader under way
	}
	return events, errors.New("the end is never reached")
}

// take takes entries as long as they follow; the first one in any case if it is free.
func (r *reader) take(entries []stream.Entry, free bool, events *[]event) (n int) {
	for i := range entries {
		e := &entries[i]
		if !(free && i == 0) && !r.model.rule.Follows(r.cursor, e) {
			break
		}
		number, err := strconv.Atoi(e.Payload)
		if err != nil || number < 0 || number >= r.model.count {
			number = 1 << 30 // nobody published it: check says so
		}
		*events = append(*events, event{number: number})
		r.cursor, r.at = e.ID, number
		n++
	}
	return n
}

// check judges what the reader was given and told, and settles its account.
func (r *reader) check(start *reader, events []event) error {
	m := r.model
	served := m.served()
	where := map[int]bool{} // what is served
	for _, msg := range served {
		where[msg.number] = true
	}

	// What it was given is served, in order, and nothing of it twice.
	given := map[int]bool{}
	told, missed := false, uint64(0)
	newest := -1
	for _, e := range events {
		if e.gap != nil {
			told = true
			missed += e.gap.Missed
			m.counts.trimmed++
			if e.gap.Reason == stream.Reset {
				m.counts.trimmed--
				m.counts.reset++
				newest = -1
				clear(r.had) // from here on it begins anew
			}
			continue
		}
		if !where[e.number] {
			return fmt.Errorf("given message %d, which is not served", e.number)
		}
		if e.number <= newest || r.had[e.number] {
			return fmt.Errorf("given message %d again", e.number)
		}
		newest = e.number
		given[e.number], r.had[e.number] = true, true
	}

	// What it is owed: each message since it was up to date is given, or gone
	// and told. At the earliest nothing is owed but what is served.
	survived := start.at == atFirst || m.state.holed && start.at == atNothing ||
		slices.ContainsFunc(m.state.chain, func(msg message) bool { return msg.number == start.at })
	confused := m.twice[start.cursor]
	if confused {
		m.counts.twice++
	}
	gone := 0
	r.pending = nil
	owed := start.pending
	if start.at != atEarliest {
		for n := start.settled; n < m.count; n++ {
			owed = append(owed[:len(owed):len(owed)], n)
		}
	} else {
		for n := range where {
			owed = append(owed, n)
		}
	}
	for _, n := range owed {
		if given[n] {
			continue
		}
		if where[n] && !confused {
			return fmt.Errorf("not given message %d", n)
		}
		gone++
		l := m.lost[n]
		switch {
		case resetTold(events) || told && !survived || coveredBy(events, n, start.at) || confused:
		case l == open && survived:
			r.pending = append(r.pending, n)
		case l == silent && survived, l == restarted && start.at == atFirst:
			m.counts.silent++ // what is left
		default:
			return fmt.Errorf("not told that message %d is gone", n)
		}
	}

	// No alarm without a loss, and with nothing but trims and deletes its
	// count is exact.
	disturbed := m.disturbedAt > start.asOf || len(start.pending) > 0 || m.state.holed || confused
	if start.at == atEarliest { // it may pass where a life of before ended
		disturbed = disturbed || slices.ContainsFunc(served, func(msg message) bool { return m.breaks[msg.number] })
	}
	if told && !disturbed {
		for _, e := range events {
			if e.gap != nil && e.gap.Reason == stream.Reset {
				return errors.New("told reset, and nothing of the log was lost")
			}
		}
		if int(missed) != gone {
			return fmt.Errorf("told that %d are missed, %d are", missed, gone)
		}
		if gone == 0 {
			return errors.New("told a gap, and nothing is missing")
		}
	}

	for _, e := range events {
		if e.gap != nil && e.gap.Reason == stream.Trimmed {
			if err := m.trimmed(e.gap, e.at); err != nil {
				return err
			}
		}
	}

	// At the end: its cursor is the log's last id.
	want := m.state.last
	if want.IsZero() {
		want = stream.BeforeFirst
	}
	if r.cursor != want {
		return fmt.Errorf("its cursor is %v at the end, the log's last id %v", r.cursor, want)
	}
	r.settled, r.asOf = m.count, m.steps
	return nil
}

// trimmed says where a gap that was told as trimmed must have been a reset,
// by what the reader's cursor and the log prove alone.
func (m *model) trimmed(g *stream.Gap, at int) error {
	last, life, begins := m.state.last, m.state.life, false
	for _, msg := range m.messages {
		if msg.id == g.Next {
			life, begins = msg.life, m.breaks[msg.number]
		}
	}
	switch {
	case g.Missed == 0 || g.Missed > last.N:
		return fmt.Errorf("told that %d are trimmed, of %d ever", g.Missed, last.N)
	case g.After.MS > last.MS:
		return fmt.Errorf("told trimmed, and the cursor %v is ahead of the log's end %v", g.After, last)
	case at == atFirst && begins:
		return fmt.Errorf("told trimmed before the first message of a new life, %v", g.Next)
	case at >= 0 && m.messages[at].life != life && g.After.MS < life:
		return fmt.Errorf("told trimmed, and the cursor %v is of an older life than %v", g.After, g.Next)
	}
	return nil
}

func resetTold(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool { return e.gap != nil && e.gap.Reason == stream.Reset })
}

// coveredBy: a gap was told between the messages around n.
func coveredBy(events []event, n, before int) bool {
	for i, e := range events {
		if e.gap == nil {
			continue
		}
		low, high := before, 1<<30
		for _, e := range events[:i] {
			if e.gap == nil {
				low = e.number
			}
		}
		for _, e := range slices.Backward(events[i+1:]) {
			if e.gap == nil {
				high = e.number
			}
		}
		if low < n && n < high {
			return true
		}
	}
	return false
}
