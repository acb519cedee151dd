package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

// shaky is a log whose hearing breaks on command, while its store goes on as
// other servers see it. It can be swapped for another store: a log that was
// wiped or restored.
type shaky struct {
	mu       sync.Mutex // guards the following
	inner    stream.Log
	away     bool
	refusal  error // what Listen says while away; nil: that it was cut
	sessions map[*shakySession]struct{}
	drop     func(stream.Mark) bool // marks that are not announced
	gate     chan struct{}          // when set, session reads wait for it
	reads    int
	queries  []stream.Query
}

var errAway = errors.New("cut by the test")

func newShaky(o memlog.Options) *shaky {
	return &shaky{inner: memlog.New(o), sessions: map[*shakySession]struct{}{}}
}

func (l *shaky) log() stream.Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inner
}

// cut ends all sessions; until mend no new one is had.
func (l *shaky) cut() {
	l.mu.Lock()
	l.away = true
	ss := l.sessions
	l.sessions = map[*shakySession]struct{}{}
	l.mu.Unlock()
	for s := range ss {
		s.Close()
	}
}

func (l *shaky) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal = err
}

func (l *shaky) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

func (l *shaky) swap(inner stream.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inner = inner
}

func (l *shaky) Append(ctx context.Context, m stream.Message) (stream.Appended, error) {
	return l.log().Append(ctx, m)
}
func (l *shaky) AppendAll(ctx context.Context, ms []stream.Message) []stream.Result {
	return l.log().AppendAll(ctx, ms)
}
func (l *shaky) Channels(ctx context.Context, q stream.ChannelQuery) (stream.ChannelPage, error) {
	return l.log().Channels(ctx, q)
}
func (l *shaky) Read(ctx context.Context, q stream.Query) (stream.Page, error) {
	return l.log().Read(ctx, q)
}
func (l *shaky) Bounds(ctx context.Context, c string) (stream.Bounds, error) {
	return l.log().Bounds(ctx, c)
}
func (l *shaky) Delete(ctx context.Context, c string) error { return l.log().Delete(ctx, c) }
func (l *shaky) Known(c string) stream.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return stream.ID{}
	}
	return l.inner.Known(c)
}
func (l *shaky) Now() time.Time    { return time.Now() }
func (l *shaky) Parts() int        { return 1 }
func (l *shaky) Part(c string) int { return 0 }
func (l *shaky) Close() error      { return l.log().Close() }

func (l *shaky) Listen(ctx context.Context, part int) (stream.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away && l.refusal != nil {
		return nil, l.refusal
	}
	if l.away {
		return nil, &stream.Error{Op: "listen", Kind: stream.ErrUnavailable, Err: errAway}
	}
	s, err := l.inner.Listen(ctx, part)
	if err != nil {
		return nil, err
	}
	ss := &shakySession{Session: s, l: l}
	l.sessions[ss] = struct{}{}
	return ss, nil
}

type shakySession struct {
	stream.Session
	l *shaky
}

func (s *shakySession) Wait(ctx context.Context) ([]stream.Mark, error) {
	for {
		marks, err := s.Session.Wait(ctx)
		if err != nil {
			return nil, err
		}
		s.l.mu.Lock()
		drop := s.l.drop
		s.l.mu.Unlock()
		if drop == nil {
			return marks, nil
		}
		kept := marks[:0]
		for _, m := range marks {
			if !drop(m) {
				kept = append(kept, m)
			}
		}
		if len(kept) > 0 {
			return kept, nil
		}
	}
}

func (s *shakySession) Read(ctx context.Context, qs []stream.Query) ([]stream.Page, error) {
	s.l.mu.Lock()
	gate := s.l.gate
	s.l.reads++
	s.l.queries = append(s.l.queries, qs...)
	s.l.mu.Unlock()
	pages, err := s.Session.Read(ctx, qs)
	if gate != nil { // what was read is held up on its way back
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return pages, err
}

// counts returns the reads and queries so far and begins anew.
func (l *shaky) counts() (reads, queries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reads, queries = l.reads, len(l.queries)
	l.reads, l.queries = 0, nil
	return reads, queries
}
