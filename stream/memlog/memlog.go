// Package memlog is the embedded log: a [stream.Log] in this process's memory.
// It keeps every promise of the contract but one: it ends with the process.
// Readers that come back after a restart are told reset.
//
// It starts no goroutine and reads the clock by [time.Now], so a
// [testing/synctest] bubble controls it whole.
//
// Files, one idea each:
//
//	memlog.go       Options, Log and its calls
//	channel.go      one channel: its entries, what is served, a page of it
//	batch.go        appends of several messages
//	channels.go     the list of channels
//	memory.go       the byte bound, and what goes by age though nobody asks
//	idempotency.go  first answers, kept for a while
//	session.go      the journal and the sessions that hear it
//
// Concurrency: one mutex, Log.mu, guards everything; nothing blocks under it.
package memlog

import (
	"context"
	"sync"
	"time"

	"rejoin/stream"
)

// Options of a log. The zero value is what the contract promises by default.
type Options struct {
	// Retention of a channel, asked once, when the channel begins; zero fields
	// mean [stream.DefaultRetention]'s. Nil: that for all.
	Retention func(channel string) stream.Retention
	// IdempotencyTTL is how long an idempotency key is remembered; 0: 5 minutes.
	IdempotencyTTL time.Duration
	// MaxBytes bounds all messages, counters and idempotency keys together, by
	// [stream.Entry.Bytes] and an estimate for the rest; 0: 256 MiB. When it is
	// reached, the oldest messages of all channels go. Counters and
	// idempotency keys stay for their time: what they leave no room for is
	// refused with [stream.ErrFull].
	MaxBytes int64
	// JournalLength is how many marks a session may lag behind before it ends
	// with an error; 0: 10,000.
	JournalLength int
}

const (
	defaultIdempotencyTTL = 5 * time.Minute
	defaultMaxBytes       = 256 << 20
	defaultJournalLength  = 10_000
)

// Log is the embedded log. Make one with [New].
type Log struct {
	opts Options

	mu       sync.Mutex // guards all below
	closed   bool
	channels map[string]*channel
	due      dueHeap // every channel, by when something of it may go
	oldest   list    // every message, in the order of the appends
	bytes    int64   // messages
	fixed    int64   // counters and idempotency keys
	floor    uint64  // the highest ms of any channel forgotten
	answers  answers // by idempotency key
	journal  journal // the newest marks
	sessions map[*session]struct{}
}

var _ stream.Log = (*Log)(nil)

// New makes an empty log.
func New(o Options) *Log {
	if o.Retention == nil {
		o.Retention = func(string) stream.Retention { return stream.DefaultRetention }
	}
	if o.IdempotencyTTL <= 0 {
		o.IdempotencyTTL = defaultIdempotencyTTL
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.JournalLength <= 0 {
		o.JournalLength = defaultJournalLength
	}
	return &Log{
		opts:     o,
		channels: map[string]*channel{},
		answers:  answers{byKey: map[answerKey]*answer{}},
		journal:  journal{length: uint64(o.JournalLength)},
		sessions: map[*session]struct{}{},
	}
}

// Append implements [stream.Log].
func (l *Log) Append(ctx context.Context, m stream.Message) (stream.Appended, error) {
	if m.End == stream.EndAlone {
		m = stream.Message{Channel: m.Channel, End: m.End}
	}
	// The hash of a large payload takes milliseconds: not under the lock.
	sum := messageSum(m)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, "append", m.Channel); err != nil {
		return stream.Appended{}, err
	}
	now := time.Now()
	l.sweep(now)
	if m.IdempotencyKey != "" {
		if a, ok := l.answers.get(m, now); ok {
			if a.sum != sum {
				return stream.Appended{}, &stream.Error{Op: "append", Channel: m.Channel, Kind: stream.ErrConflict}
			}
			return stream.Appended{ID: a.id, Replayed: true}, nil
		}
	}

	c := l.lookup(m.Channel, now)
	if c != nil && c.ended {
		if m.End == stream.EndAlone {
			return stream.Appended{ID: c.last, Replayed: true}, nil
		}
		return stream.Appended{}, &stream.Error{Op: "append", Channel: m.Channel, Kind: stream.ErrEnded}
	}
	e := stream.Entry{Payload: m.Payload, Event: m.Event, Key: m.Key, End: m.End}
	if err := l.makeRoom(&e, m, c == nil); err != nil {
		return stream.Appended{}, err
	}
	if c == nil {
		c = l.begin(m.Channel)
	}
	e.ID, e.Prev = c.next(now, l.floor)
	e.Life = c.life
	c.touched, c.ended = now, m.End != stream.NotEnd
	l.push(c, e)
	l.trim(c, now)
	if m.IdempotencyKey != "" {
		l.fixed += l.answers.add(m, sum, e.ID, now.Add(l.opts.IdempotencyTTL))
	}
	l.announce(stream.Mark{Channel: c.name, ID: e.ID, Bytes: e.Bytes()})
	return stream.Appended{ID: e.ID}, nil
}

// Read implements [stream.Log].
func (l *Log) Read(ctx context.Context, q stream.Query) (stream.Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, "read", q.Channel); err != nil {
		return stream.Page{}, err
	}
	return l.page(q, time.Now()), nil
}

func (l *Log) page(q stream.Query, now time.Time) stream.Page {
	if c := l.lookup(q.Channel, now); c != nil {
		return c.page(q)
	}
	return stream.Page{Channel: q.Channel, Placed: true}
}

// Bounds implements [stream.Log].
func (l *Log) Bounds(ctx context.Context, channel string) (stream.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, "bounds", channel); err != nil {
		return stream.Bounds{}, err
	}
	c := l.lookup(channel, time.Now())
	if c == nil {
		return stream.Bounds{}, nil
	}
	b := stream.Bounds{Last: c.last, Length: uint64(len(c.entries))}
	if len(c.entries) > 0 {
		b.First = c.entries[0].entry.ID
	}
	return b, nil
}

// Delete implements [stream.Log].
func (l *Log) Delete(ctx context.Context, channel string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, "delete", channel); err != nil {
		return err
	}
	now := time.Now()
	c := l.lookup(channel, now)
	if c == nil {
		return nil
	}
	for len(c.entries) > 0 {
		l.pop(c)
	}
	c.floor, c.touched = c.last, now
	l.schedule(c)
	l.announce(stream.Mark{Channel: c.name, ID: c.last, Deleted: true})
	return nil
}

// Known implements [stream.Log]: here it is the channel's last id.
func (l *Log) Known(channel string) stream.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.lookup(channel, time.Now()); c != nil {
		return c.last
	}
	return stream.ID{}
}

// Now implements [stream.Log]: this process's clock.
func (l *Log) Now() time.Time { return time.Now() }

// Parts implements [stream.Log]: there is one.
func (l *Log) Parts() int { return 1 }

// Part implements [stream.Log].
func (l *Log) Part(string) int { return 0 }

// Close implements [stream.Log]. The messages are gone.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for s := range l.sessions {
		s.end(&stream.Error{Op: "wait", Kind: stream.ErrClosed})
	}
	l.channels, l.due, l.oldest, l.answers = nil, nil, list{}, answers{}
	l.bytes, l.fixed = 0, 0
	return nil
}

// usable says why a call cannot be served at all.
func (l *Log) usable(ctx context.Context, op, channel string) error {
	if l.closed {
		return &stream.Error{Op: op, Channel: channel, Kind: stream.ErrClosed}
	}
	if ctx.Err() != nil {
		return &stream.Error{Op: op, Channel: channel, Kind: stream.ErrUnavailable, Err: context.Cause(ctx)}
	}
	return nil
}
