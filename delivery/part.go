package delivery

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rejoin/stream"
)

const (
	// staleAfter is how long a log may be silent before readers are told.
	staleAfter = time.Second
	// redialEvery is the least time from one attempt at a session to the next.
	redialEvery = 250 * time.Millisecond
	// sweepEvery is how often idle tails and old pages are looked for.
	sweepEvery = time.Second
	// tailIdle is how long a tail outlives its last reader: clients that
	// reconnect find it warm.
	tailIdle = 30 * time.Second
)

// part hears one part of the log and owns the tails of the channels in it. Its
// run loop, the worker, is the only one to change tails.
type part struct {
	b     *Broker
	n     int
	state atomic.Pointer[partState]

	work chan struct{} // one slot: there is something for the worker
	read chan struct{} // one slot: there is something for the page reader

	// mu guards the following.
	mu      sync.Mutex
	tails   map[string]*tail
	dirty   map[*tail]dirt
	wants   map[wantKey]*want
	queue   []*want   // wants not yet sent
	round   uint64    // number of the newest round of page reads
	grown   []stretch // stretches below a tail's base, read and to be joined to it
	session uint64    // number of the session, to tell late timers from current ones
}

// partState is how a part stands; it never changes once stored.
type partState struct {
	epoch uint64 // the session that is up; 0: none is
	stale bool   // told, or to be told, to the readers
	since time.Time
}

// dirt is why a tail must be read again.
type dirt struct {
	id    stream.ID // the highest id announced
	look  bool      // the announcement alone does not say enough
	since time.Time // when the first announcement came
}

func newPart(b *Broker, n int) *part {
	p := &part{
		b: b, n: n,
		work:  make(chan struct{}, 1),
		read:  make(chan struct{}, 1),
		tails: map[string]*tail{},
		dirty: map[*tail]dirt{},
		wants: map[wantKey]*want{},
	}
	p.state.Store(&partState{since: time.Now()})
	return p
}

func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run keeps one session with the log after the other until ctx ends.
func (p *part) run(ctx context.Context) {
	heard := time.Now()
	for {
		watch := p.watch(heard)
		s := p.connect(ctx)
		watch.Stop()
		if s == nil {
			return
		}
		p.up()
		err := p.hear(ctx, s)
		heard = s.Heard()
		p.down()
		if ctx.Err() == nil {
			p.b.o.Log("session with the log ended", p.n, err)
		}
	}
}

// connect tries for a session until there is one, nil when ctx ended.
func (p *part) connect(ctx context.Context) stream.Session {
	for {
		began := time.Now()
		s, err := p.b.log.Listen(ctx, p.n)
		if err == nil {
			return s
		}
		if errors.Is(err, stream.ErrBroken) {
			p.setAside(err) // it answers, and refuses
		}
		p.sweep(time.Now())
		select {
		case <-time.After(max(0, redialEvery-time.Since(began)) + rand.N(redialEvery/5)):
		case <-ctx.Done():
			return nil
		}
	}
}

// setAside ends all readers of the part with an error: they cannot be served,
// and are told why. Those who come later are told the same, until it is mended.
func (p *part) setAside(err error) {
	for _, t := range p.allTails() {
		p.remove(t)
		t.publish(&chain{err: err})
	}
}

// watch tells the readers when the log has been silent for staleAfter.
func (p *part) watch(heard time.Time) *time.Timer {
	p.mu.Lock()
	n := p.session
	p.mu.Unlock()
	return time.AfterFunc(time.Until(heard.Add(staleAfter)), func() {
		p.mu.Lock()
		late := p.session != n
		if !late {
			p.state.Store(&partState{stale: true, since: heard})
		}
		p.mu.Unlock()
		if !late {
			p.b.o.Log("log does not answer", p.n, nil)
			p.wakeAll()
		}
	})
}

// up begins a session: every tail must be looked at.
func (p *part) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session++
	if p.state.Load().stale {
		p.b.o.Log("log answers again", p.n, nil)
	}
	p.state.Store(&partState{epoch: p.session, since: time.Now()})
	for _, t := range p.tails {
		p.soil(t, dirt{look: true})
	}
	kick(p.work)
	kick(p.read)
}

func (p *part) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Store(&partState{since: time.Now()})
}

// hear works through a session until it is over; the error says why.
func (p *part) hear(ctx context.Context, s stream.Session) error {
	g, ctx := errgroup.WithContext(ctx)
	closed := context.AfterFunc(ctx, s.Close) // interrupts reads that block
	defer func() { closed(); s.Close() }()
	g.Go(func() error {
		for {
			marks, err := s.Wait(ctx)
			if err != nil {
				return err
			}
			p.note(marks)
		}
	})
	g.Go(func() error { return p.readPages(ctx, s) })
	g.Go(func() error { return p.follow(ctx, s) })
	return g.Wait()
}

// note remembers which tails the marks concern. Channels without readers here
// cost one look into the map.
func (p *part) note(marks []stream.Mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range marks {
		if t := p.tails[m.Channel]; t != nil {
			p.soil(t, dirt{id: m.ID, look: m.Deleted})
		}
	}
	if len(p.dirty) > 0 {
		kick(p.work)
	}
}

// soil notes that a tail must be read; p.mu is held.
func (p *part) soil(t *tail, d dirt) {
	old, ok := p.dirty[t]
	if ok {
		d.since = old.since
		d.look = d.look || old.look
		if d.id.Less(old.id) {
			d.id = old.id
		}
	} else {
		d.since = time.Now()
	}
	p.dirty[t] = d
}

// tail finds or begins the channel's tail. Interest is registered here, before
// the channel's end is read.
func (p *part) tail(channel string) *tail {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tails[channel]
	if t == nil {
		t = newTail(p, channel)
		p.tails[channel] = t
		p.soil(t, dirt{look: true})
		kick(p.work)
	}
	return t
}

// look asks the worker to read a tail's end from the log.
func (p *part) look(t *tail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tails[t.channel] != t {
		return // set aside
	}
	p.soil(t, dirt{look: true})
	kick(p.work)
}

// remove takes a tail out of the map.
func (p *part) remove(t *tail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tails[t.channel] == t {
		delete(p.tails, t.channel)
	}
	delete(p.dirty, t)
}

func (p *part) allTails() []*tail {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*tail, 0, len(p.tails))
	for _, t := range p.tails {
		all = append(all, t)
	}
	return all
}

func (p *part) wakeAll() {
	for _, t := range p.allTails() {
		t.wake()
	}
}

// sweep lets idle tails and old pages go and trims the others; the worker calls it.
func (p *part) sweep(now time.Time) {
	p.forgetPages(now)
	tails := p.allTails()
	for _, t := range tails {
		if t.die(now.Add(-tailIdle)) {
			p.remove(t)
			t.replace(&chain{})
			continue
		}
		if old := t.chain.Load(); len(old.recs) > 0 {
			c := *old
			p.trim(t, &c)
			if len(c.recs) != len(old.recs) {
				t.replace(&c)
			}
		}
	}
}

// trim cuts a chain to what is served and to its share of memory.
func (p *part) trim(t *tail, c *chain) {
	share := p.b.o.TailBytes
	if total := p.b.o.TotalBytes; p.b.bytes.Load() > int64(total) {
		p.mu.Lock()
		n := max(1, len(p.tails)*len(p.b.parts))
		p.mu.Unlock()
		share = min(share, total/n)
	}
	c.trim(t.keep.MaxMessages, t.oldest(), share)
}
