package delivery

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"rejoin/stream"
)

const (
	// pageEntries is the grid pages end on (n % pageEntries == 0), so that
	// readers that begin at different cursors soon read the same pages.
	pageEntries = 100
	// pageFor is how long a page that was read is given to others.
	pageFor = 2 * time.Second
	// pagesAtOnce and pagesBytes bound one round trip of the page reader.
	pagesAtOnce = 32
	// pageBytes bounds one page, but for its first entry: a slow reader holds one.
	pageBytes  = 256 << 10
	pagesBytes = 8 << 20
	// stretchEntries is the most read at once to extend a tail downward.
	stretchEntries = 1000
)

// wantKind says which stretch of a channel is wanted.
type wantKind uint8

const (
	wantAfter  wantKind = iota // a page behind a cursor
	wantBefore                 // the newest entries below an id: to find a position
	wantDown                   // what stands below the tail's base, to extend it
)

// wantKey makes equal wants one. The limit is no part of a wantDown: there is
// one read at a time below a tail's base.
type wantKey struct {
	tail  *tail
	kind  wantKind
	id    stream.ID
	limit int
}

// want is a read that one or more readers wait for.
type want struct {
	key wantKey
	era uint64 // of the tail when it was asked for

	// result is nil until the answer is there.
	result atomic.Pointer[page]

	// guarded by part.mu
	round   uint64 // the round of reads it was sent with; 0: not yet
	limit   int    // entries to read; may grow until it is sent
	waiters []*Subscription
	until   time.Time // when a kept answer is forgotten
}

// page is a stretch of a channel read for readers that are not at the tail.
type page struct {
	stream.Page
	recs  []*Record // the entries up to the first break of the chain
	bytes int
}

// goesOn reports whether the page answers its cursor with a yes, which stays
// true; a verdict is only for those who asked before it was read.
func (pg *page) goesOn(after stream.ID) bool {
	return len(pg.recs) > 0 && stream.Follows(after, &pg.recs[0].Entry)
}

// stretch is an answered wantDown on its way to the worker.
type stretch struct {
	w  *want
	pg *page
}

// ask registers the want of a subscription. round is the newest round of reads
// begun so far: only a later one can judge a doubt that arises now.
func (p *part) ask(key wantKey, s *Subscription) (w *want, round uint64) {
	limit := key.limit
	if key.kind == wantDown {
		key.limit = 0
	}
	era := key.tail.chain.Load().era
	p.mu.Lock()
	defer p.mu.Unlock()
	if w = p.wants[key]; w != nil {
		pg := w.result.Load()
		switch {
		case pg == nil:
			w.waiters = append(w.waiters, s)
			if w.round == 0 {
				w.limit = max(w.limit, limit)
			}
			return w, p.round
		case key.kind == wantAfter && w.era == era && pg.goesOn(key.id):
			return w, p.round
		}
		p.drop(w)
	}
	w = &want{key: key, era: era, limit: limit, waiters: []*Subscription{s}}
	p.wants[key] = w
	p.queue = append(p.queue, w)
	kick(p.read)
	return w, p.round
}

// unask ends a subscription's wait. What nobody waits for is not read.
func (p *part) unask(w *want, s *Subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(w.waiters, s); i >= 0 {
		w.waiters = slices.Delete(w.waiters, i, i+1)
	}
	if len(w.waiters) > 0 || w.round != 0 || w.result.Load() != nil {
		return
	}
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.drop(w)
	}
}

// drop forgets a want; p.mu is held.
func (p *part) drop(w *want) {
	if p.wants[w.key] == w {
		delete(p.wants, w.key)
	}
	if pg := w.result.Load(); pg != nil {
		p.b.bytes.Add(-int64(pg.bytes))
	}
}

// answer gives a want its page and wakes who waits. A page that says yes is
// kept a while for others.
func (p *part) answer(w *want, pg *page) {
	p.mu.Lock()
	w.result.Store(pg)
	waiters := w.waiters
	w.waiters = nil
	p.b.bytes.Add(int64(pg.bytes))
	if w.key.kind == wantAfter && pg.goesOn(w.key.id) && p.b.bytes.Load() < int64(p.b.o.TotalBytes) {
		w.until = time.Now().Add(pageFor)
	} else {
		p.drop(w)
	}
	p.mu.Unlock()
	for _, s := range waiters {
		s.poke()
	}
}

func (p *part) forgetPages(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wants {
		if w.result.Load() != nil && now.After(w.until) {
			p.drop(w)
		}
	}
}

// readPages reads what is wanted, all that has gathered in one round trip.
func (p *part) readPages(ctx context.Context, s stream.Session) error {
	for {
		wants := p.takeWants()
		if len(wants) == 0 {
			select {
			case <-p.read:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		queries := make([]stream.Query, len(wants))
		for i, w := range wants {
			queries[i] = stream.Query{Channel: w.key.tail.channel, Limit: w.limit, MaxBytes: min(pageBytes, pagesBytes/len(wants))}
			switch w.key.kind {
			case wantAfter:
				queries[i].After = w.key.id
			case wantBefore:
				queries[i].Before = w.key.id
			case wantDown: // the base itself comes too and proves the place
				queries[i].Before = stream.ID{MS: w.key.id.MS, N: w.key.id.N + 1}
			}
		}
		pages, err := s.Read(ctx, queries)
		if err != nil {
			p.requeue(wants)
			return err
		}
		now := time.Now()
		for i, w := range wants {
			if err := pages[i].Err; err != nil && !errors.Is(err, stream.ErrBroken) {
				p.requeue(wants[i:])
				return err
			}
			p.b.o.Meter.CatchUpRead()
			pg := newPage(w.key.tail.channel, pages[i], w.key.kind, now)
			if w.key.kind == wantDown {
				p.mu.Lock()
				p.grown = append(p.grown, stretch{w, pg})
				p.mu.Unlock()
				kick(p.work)
			} else {
				p.answer(w, pg)
			}
		}
	}
}

// newPage takes an answer in. A page behind a cursor ends at the first break of
// the chain: what stands behind it is judged when the reader gets there.
func newPage(channel string, sp stream.Page, kind wantKind, now time.Time) *page {
	pg := &page{Page: sp}
	for i := range sp.Entries {
		e := &sp.Entries[i]
		if kind == wantAfter && i > 0 && !stream.Follows(sp.Entries[i-1].ID, e) {
			break
		}
		r := &Record{Channel: channel, Entry: *e, Arrived: now}
		pg.recs = append(pg.recs, r)
		pg.bytes += r.Bytes()
	}
	return pg
}

func (p *part) takeWants() []*want {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	n := min(len(p.queue), pagesAtOnce)
	wants := p.queue[:n:n]
	if p.queue = p.queue[n:]; len(p.queue) == 0 {
		p.queue = nil
	} else {
		kick(p.read)
	}
	for _, w := range wants {
		w.round = p.round
	}
	return wants
}

// requeue keeps what a broken session did not answer for the next one.
func (p *part) requeue(wants []*want) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range wants {
		w.round = 0
	}
	p.queue = append(wants, p.queue...)
}

// joinStretches extends tails downward by what was read below their base; the
// worker calls it.
func (p *part) joinStretches() {
	p.mu.Lock()
	grown := p.grown
	p.grown = nil
	p.mu.Unlock()
	for _, g := range grown {
		t := g.w.key.tail
		if c := *t.chain.Load(); c.known && c.era == g.w.era && c.base == g.w.key.id && g.pg.Err == nil {
			c.prepend(g.pg)
			t.replace(&c)
		}
		g.pg = &page{Page: stream.Page{Err: g.pg.Err}}
		p.answer(g.w, g.pg)
	}
}
