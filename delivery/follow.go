package delivery

import (
	"context"
	"errors"
	"math"
	"time"

	"rejoin/stream"
)

const (
	// followTails is how many tails are read in one round trip.
	followTails = 512
	// followBytes bounds what one round trip of the worker may bring, and one
	// tail's share of it at the least.
	followBytes    = 8 << 20
	followMinBytes = 64 << 10
	// followLimit is how many entries of a tail one round trip may bring.
	followLimit = 1000
)

// follow is the worker: it reads what was announced and moves the tails on. One
// round trip serves all tails that became dirty while the one before was under
// way, so it never falls behind by queueing.
func (p *part) follow(ctx context.Context, s stream.Session) error {
	epoch := p.state.Load().epoch
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		p.joinStretches()
		tails, dirt := p.takeDirty()
		if len(tails) == 0 {
			select {
			case <-p.work:
			case now := <-sweep.C:
				p.sweep(now)
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := p.readTails(ctx, s, epoch, tails, dirt); err != nil {
			return err
		}
		select {
		case now := <-sweep.C:
			p.sweep(now)
		default:
		}
	}
}

func (p *part) takeDirty() (tails []*tail, dirts []dirt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t, d := range p.dirty {
		tails, dirts = append(tails, t), append(dirts, d)
		delete(p.dirty, t)
		if len(tails) == followTails {
			break
		}
	}
	return tails, dirts
}

// readTails reads the tails that need it in one pipeline and applies the pages.
func (p *part) readTails(ctx context.Context, s stream.Session, epoch uint64, tails []*tail, dirts []dirt) error {
	queries := make([]stream.Query, 0, len(tails))
	n := 0
	bytes := max(followMinBytes, followBytes/len(tails))
	for i, t := range tails {
		c := t.chain.Load()
		q := stream.Query{Channel: t.channel, Limit: followLimit, MaxBytes: bytes}
		switch _, in := c.find(dirts[i].id); {
		case !c.known:
			q.Before, q.Limit = stream.MaxID, 1
		case c.epoch != epoch || dirts[i].look:
			q.After = c.end()
		case in:
			continue // read already
		case c.end().Less(dirts[i].id):
			q.After, q.Follow = c.end(), true
		default:
			q.After = c.end() // neither beyond the end nor in the chain
		}
		queries = append(queries, q)
		tails[n], dirts[n] = t, dirts[i]
		n++
	}
	if n == 0 {
		return nil
	}
	pages, err := s.Read(ctx, queries)
	if err != nil {
		return err
	}
	now := time.Now()
	for i := range pages {
		if err := p.apply(tails[i], &queries[i], &pages[i], epoch, now); err != nil {
			return err
		}
		if !dirts[i].id.IsZero() {
			p.b.o.Meter.FeedLag(now.Sub(dirts[i].since))
		}
	}
	return nil
}

// apply moves a tail on by what was read of it. An error ends the session.
func (p *part) apply(t *tail, q *stream.Query, page *stream.Page, epoch uint64, now time.Time) error {
	if page.Err != nil {
		if !errors.Is(page.Err, stream.ErrBroken) {
			return page.Err
		}
		// The channel alone is set aside; who comes next looks again.
		p.remove(t)
		t.publish(&chain{err: page.Err})
		return nil
	}
	old := t.chain.Load()
	c := *old
	if !q.Follow {
		c.looked++
		c.floor = page.Floor
	}
	switch {
	case !c.known:
		p.begin(&c, page)
		c.epoch = epoch
		for i := range page.Entries {
			if e := &page.Entries[i]; e.ID == page.Last {
				if base, ok := e.Before(); ok {
					c.base = base
					c.append(p.record(t, e, now))
				}
			}
		}
		c.bottom = !page.More && len(c.recs) == len(page.Entries)
	case q.Follow:
		taken := p.extend(t, &c, page, now)
		if taken == 0 || taken < len(page.Entries) {
			p.look(t) // the chain broke, or what was announced is not there
		} else if page.More {
			p.look(t)
		}
	default:
		taken := p.extend(t, &c, page, now)
		switch {
		case taken == len(page.Entries) && page.More:
			p.look(t)
		case taken < len(page.Entries) || c.end().Less(page.Last) || lastOf(page).Less(c.end()) && taken == 0:
			// Rolled back, or entries between are gone: the chain begins anew
			// at the log's end, and each reader's cursor is judged by the rule.
			p.begin(&c, page)
			c.epoch = epoch
		default:
			c.dropThrough(page.Floor)
			c.epoch = epoch
		}
	}
	p.trim(t, &c)
	t.publish(&c)
	return nil
}

// begin makes c an empty chain at the log's end.
func (p *part) begin(c *chain, page *stream.Page) {
	*c = chain{known: true, era: c.era + 1, looked: c.looked, floor: page.Floor, base: lastOf(page), ended: page.Ended}
}

// lastOf is the position of the log's end.
func lastOf(page *stream.Page) stream.ID {
	if page.Last.IsZero() {
		return stream.BeforeFirst
	}
	return page.Last
}

// extend appends the entries that follow and returns how many did.
func (p *part) extend(t *tail, c *chain, page *stream.Page, now time.Time) int {
	for i := range page.Entries {
		e := &page.Entries[i]
		if !c.follows(e) {
			return i
		}
		c.append(p.record(t, e, now))
	}
	return len(page.Entries)
}

// record takes in an entry read for the first time.
func (p *part) record(t *tail, e *stream.Entry, now time.Time) *Record {
	if ms := e.ID.MS; ms < math.MaxInt64 {
		p.b.o.Meter.Arrived(max(0, p.b.log.Now().Sub(time.UnixMilli(int64(ms)))))
	}
	return &Record{Channel: t.channel, Entry: *e, Arrived: now}
}
