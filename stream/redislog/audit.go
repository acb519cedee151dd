package redislog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rejoin/stream"
)

const (
	// auditEvery is how often the log is asked, auditTimeout how long it may
	// take to answer: a log that is silent is told within their sum.
	auditEvery   = 250 * time.Millisecond
	auditTimeout = time.Second
)

var errSilent = errors.New("no answer to the audit within 1 s")

// watch is the session's audit: it asks where the journals end, and compares
// with how far they have been heard. It finds what the reader cannot: a
// connection that is open and dead, a journal lost or rolled back under it, a
// master that is one no more.
func (s *session) watch() {
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	var before, recent audit
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		now, err := s.audit()
		if err == nil {
			err = now.judge(&before)
		}
		if err != nil {
			s.end(failure("audit", "", err, false))
			return
		}
		before, recent = recent, now
	}
}

// audit is what one look at the journals' ends found.
type audit struct {
	places []place // how far was heard when it was sent
	busy   bool    // the reader was not reading then
	ends   []stream.ID
}

func (s *session) audit() (a audit, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	a.places, a.busy = s.journal.snapshot()
	p := s.client.Pipeline()
	sent, clock := time.Now(), p.Time(ctx)
	role := p.Do(ctx, "ROLE")
	ends := p.MGet(ctx, s.journal.endKeys()...)
	if _, err := p.Exec(ctx); err != nil && !isReply(err) {
		if ctx.Err() != nil {
			err = errors.Join(errSilent, err)
		}
		return a, err
	}
	s.answered()
	s.log.opts.Meter.RoundTrip("audit", time.Since(sent))
	if t, err := clock.Result(); err == nil {
		s.log.heardClock(sent, t)
	}
	if err := checkRole(role); err != nil {
		return a, err
	}
	list, err := ends.Result()
	if err != nil {
		return a, err
	}
	a.ends, err = parseEnds(list)
	return a, err
}

// judge compares the journals' ends with how far they were heard. An end below
// the place, as it was when the audit was sent, is a journal that went back. An
// end that the audit of half a second before already saw above a place which has
// not moved since is one that the reader does not get to see.
func (a *audit) judge(before *audit) error {
	for i, end := range a.ends {
		at := a.places[i]
		if end.Less(at.heard) && !(end.IsZero() && at.bare) {
			return fmt.Errorf("%w: it ends at %s, heard was %s", errJournal, end, at.heard)
		}
		stuck := before.ends != nil && !a.busy && !before.busy &&
			at.heard == before.places[i].heard && at.heard.Less(before.ends[i]) && !end.Less(before.ends[i])
		if stuck {
			return fmt.Errorf("%w: it ends at %s, nothing is heard behind %s", errJournal, end, at.heard)
		}
	}
	return nil
}
