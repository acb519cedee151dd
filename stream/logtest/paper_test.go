package logtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"rejoin/stream"
)

// paperLog is the append of the design on paper: one map, each rule a line. It
// has no sessions, no ages and no bounds. It is what the model was made with, so
// that a failure on a real engine can be told from one of the model.
type paperStore struct {
	mu       sync.Mutex
	keep     uint64
	channels map[string]*paperChannel
}

type paperChannel struct {
	stream    bool
	entries   []stream.Entry // foreign ones have no Life
	generated stream.ID
	small     bool
	last      stream.ID
	life      uint64
	floor     stream.ID
	answers   map[string]paperAnswer
}

type paperAnswer struct {
	payload string
	id      stream.ID
}

func newPaper(o Options) (Store, error) {
	return &paperStore{keep: uint64(o.Retention.MaxMessages), channels: map[string]*paperChannel{}}, nil
}

func (s *paperStore) Open() (stream.Log, error) {
	return &paperLog{store: s, known: map[string]stream.ID{}}, nil
}
func (s *paperStore) Faults() Faults { return (*paperFaults)(s) }
func (s *paperStore) Close() error   { return nil }

func (s *paperStore) at(channel string) *paperChannel {
	c := s.channels[channel]
	if c == nil {
		c = &paperChannel{answers: map[string]paperAnswer{}}
		s.channels[channel] = c
	}
	return c
}

// state is the last id and life, found again without the small key.
func (c *paperChannel) state() (last stream.ID, life uint64) {
	if c.small {
		return c.last, c.life
	}
	for _, e := range slices.Backward(c.entries) {
		if e.Life != 0 {
			if c.generated.N >= e.ID.N {
				return c.generated, e.Life
			}
			return e.ID, e.Life
		}
	}
	if len(c.entries) == 0 && c.generated.N > 0 {
		return c.generated, c.generated.MS
	}
	return stream.ID{}, 0
}

func (c *paperChannel) add(e stream.Entry) bool {
	if !c.stream {
		c.stream, c.generated, c.entries = true, stream.ID{}, nil
	}
	if !c.generated.Less(e.ID) {
		return false
	}
	c.entries = append(c.entries, e)
	c.generated = e.ID
	return true
}

type paperLog struct {
	stream.Log // the rest is not asked for
	store      *paperStore
	clock      uint64
	known      map[string]stream.ID
}

func (l *paperLog) Close() error                   { return nil }
func (l *paperLog) Now() time.Time                 { return time.Time{} }
func (l *paperLog) Known(channel string) stream.ID { return l.known[channel] }

func (l *paperLog) Append(_ context.Context, m stream.Message) (stream.Appended, error) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	c := l.store.at(m.Channel)
	if a, ok := c.answers[m.IdempotencyKey]; ok {
		if a.payload != m.Payload {
			return stream.Appended{}, stream.ErrConflict
		}
		return stream.Appended{ID: a.id, Replayed: true}, nil
	}
	last, life := c.state()
	known := l.known[m.Channel]
	e := stream.Entry{ID: stream.ID{MS: max(l.clock, last.MS), N: last.N + 1}, Prev: last.MS, Life: life, Payload: m.Payload}
	if last.N == 0 || known.MS > last.MS || known.MS >= life && known.N > last.N {
		e.Prev = 0
		e.ID = stream.ID{MS: max(l.clock, last.MS+1), N: max(last.N, known.N) + 1}
		if known.MS <= l.clock+60_000 {
			e.ID.MS = max(e.ID.MS, known.MS+1)
		}
		e.Life = e.ID.MS
	}
	if !c.add(e) {
		e.ID.MS = c.generated.MS + 1
		if e.Prev == 0 {
			e.Life = e.ID.MS
		}
		c.add(e)
	}
	c.small, c.last, c.life = true, e.ID, e.Life
	if m.IdempotencyKey != "" {
		c.answers[m.IdempotencyKey] = paperAnswer{m.Payload, e.ID}
	}
	l.known[m.Channel] = e.ID
	return stream.Appended{ID: e.ID}, nil
}

func (l *paperLog) Read(_ context.Context, q stream.Query) (stream.Page, error) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	c := l.store.at(q.Channel)
	last, life := c.state()
	p := stream.Page{Channel: q.Channel, Last: last, Life: life, Placed: true}
	for _, e := range c.entries {
		switch {
		case e.Life == 0 || e.ID.N+l.store.keep <= last.N:
		case !q.After.Less(e.ID):
			p.Placed = e.ID == q.After
			if p.Oldest.IsZero() {
				p.Oldest = e.ID
			}
		case len(p.Entries) == q.Limit:
			p.More = true
		default:
			p.Entries = append(p.Entries, e)
		}
	}
	if l.known[q.Channel].Less(last) {
		l.known[q.Channel] = last
	}
	return p, nil
}

func (l *paperLog) Delete(_ context.Context, channel string) error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	c := l.store.at(channel)
	last, life := c.state()
	if last.N > 0 {
		c.entries = nil
		c.small, c.last, c.life, c.floor = true, last, life, last
	}
	return nil
}

type paperFaults paperStore

func (f *paperFaults) with(channel string, do func(c *paperChannel)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	do((*paperStore)(f).at(channel))
	return nil
}

func (f *paperFaults) Forget(l stream.Log, channel string) { delete(l.(*paperLog).known, channel) }
func (f *paperFaults) SetClock(l stream.Log, ms uint64)    { l.(*paperLog).clock = ms }
func (f *paperFaults) Wipe(channel string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.channels, channel)
	return nil
}
func (f *paperFaults) LoseState(channel string) error {
	return f.with(channel, func(c *paperChannel) { c.small = false })
}
func (f *paperFaults) LoseMessages(channel string) error {
	return f.with(channel, func(c *paperChannel) { c.stream, c.entries, c.generated = false, nil, stream.ID{} })
}

func (f *paperFaults) Save(channel string) (func() error, error) {
	clone := func(c paperChannel) paperChannel {
		c.entries = slices.Clone(c.entries)
		answers := c.answers
		c.answers = map[string]paperAnswer{}
		for k, a := range answers {
			c.answers[k] = a
		}
		return c
	}
	var saved paperChannel
	err := f.with(channel, func(c *paperChannel) { saved = clone(*c) })
	return func() error { return f.with(channel, func(c *paperChannel) { *c = clone(saved) }) }, err
}

func (f *paperFaults) Trim(channel string, first stream.ID) error {
	return f.with(channel, func(c *paperChannel) {
		c.entries = slices.DeleteFunc(c.entries, func(e stream.Entry) bool { return e.ID.Less(first) })
	})
}

func (f *paperFaults) AddForeign(channel string, id stream.ID) error {
	return f.with(channel, func(c *paperChannel) {
		if id.IsZero() { // as * with a clock far behind
			id = stream.ID{MS: max(c.generated.MS, 1), N: c.generated.N + 1}
		}
		c.add(stream.Entry{ID: id})
	})
}

func (f *paperFaults) Remove(channel string, id stream.ID) error {
	return f.with(channel, func(c *paperChannel) {
		c.entries = slices.DeleteFunc(c.entries, func(e stream.Entry) bool { return e.ID == id })
	})
}
