package memlog

import (
	"context"
	"errors"
	"time"

	"rejoin/stream"
)

// journal holds the newest marks in a ring. Guarded by Log.mu.
type journal struct {
	length uint64 // most marks kept
	marks  []stream.Mark
	end    uint64 // marks ever; mark i is marks[i % length]
}

func (j *journal) add(m stream.Mark) {
	if uint64(len(j.marks)) < j.length {
		j.marks = append(j.marks, m)
	} else {
		j.marks[j.end%j.length] = m
	}
	j.end++
}

// after gives the marks from position pos on; ok is false when some of them
// have been overwritten.
func (j *journal) after(pos uint64) (marks []stream.Mark, ok bool) {
	if j.end-pos > j.length {
		return nil, false
	}
	for ; pos < j.end; pos++ {
		marks = append(marks, j.marks[pos%j.length])
	}
	return marks, true
}

// announce adds a mark and wakes the sessions.
func (l *Log) announce(m stream.Mark) {
	l.journal.add(m)
	for s := range l.sessions {
		select {
		case s.wake <- struct{}{}:
		default: // it has been told and not yet looked
		}
	}
}

// session implements [stream.Session]. It has no goroutine and no connection:
// what takes one elsewhere is here a call under Log.mu.
type session struct {
	log  *Log
	wake chan struct{} // one slot: there may be news
	over chan struct{} // closed by end

	// guarded by Log.mu
	pos   uint64 // marks before this have been given
	err   error  // why it is over, nil while it lives
	ended time.Time
}

var errLagged = errors.New("the session fell behind the journal")

// Listen implements [stream.Log].
func (l *Log) Listen(ctx context.Context, _ int) (stream.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, "listen", ""); err != nil {
		return nil, err
	}
	s := &session{log: l, wake: make(chan struct{}, 1), over: make(chan struct{}), pos: l.journal.end}
	l.sessions[s] = struct{}{}
	return s, nil
}

// end makes the session over, once, for this reason. Called with Log.mu held.
func (s *session) end(err error) {
	if s.err != nil {
		return
	}
	s.err, s.ended = err, time.Now()
	close(s.over)
	delete(s.log.sessions, s)
}

// Wait implements [stream.Session]. A context that ends leaves the session as
// it is, with nothing lost.
func (s *session) Wait(ctx context.Context) ([]stream.Mark, error) {
	for {
		marks, err := s.take()
		if len(marks) > 0 || err != nil {
			return marks, err
		}
		select {
		case <-s.wake:
		case <-s.over:
		case <-ctx.Done():
			return nil, &stream.Error{Op: "wait", Kind: stream.ErrUnavailable, Err: context.Cause(ctx)}
		}
	}
}

// take gives what there is, without waiting.
func (s *session) take() ([]stream.Mark, error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	marks, ok := l.journal.after(s.pos)
	if !ok {
		s.end(&stream.Error{Op: "wait", Kind: stream.ErrUnavailable, Err: errLagged})
		return nil, s.err
	}
	s.pos = l.journal.end
	return marks, nil
}

// Read implements [stream.Session].
func (s *session) Read(ctx context.Context, queries []stream.Query) ([]stream.Page, error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if err := l.usable(ctx, "read", ""); err != nil {
		return nil, err
	}
	now := time.Now()
	pages := make([]stream.Page, len(queries))
	for i, q := range queries {
		pages[i] = l.page(q, now)
	}
	return pages, nil
}

// Heard implements [stream.Session]: memory always answers.
func (s *session) Heard() time.Time {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.err != nil {
		return s.ended
	}
	return time.Now()
}

// Close implements [stream.Session].
func (s *session) Close() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.end(&stream.Error{Op: "wait", Kind: stream.ErrClosed})
}
