package delivery

import (
	"runtime"
	"sync"
	"time"
)

const (
	// turnTime is about how long one channel's readers are served before
	// those of another have their turn.
	turnTime = time.Millisecond
	// turnCheck is how many connections are served between two looks at the clock.
	turnCheck = 16
	// sweepOutlets is how often heartbeats and overdue answers are looked for.
	sweepOutlets = 500 * time.Millisecond
)

// pump writes to a share of the connections, one goroutine for all of them. A
// connection is queued when its subscription may have something, once however
// often that is; so when a pass takes longer than the messages are apart, each
// write carries more of them.
type pump struct {
	wake chan struct{} // one slot

	// mu guards the following.
	mu     sync.Mutex
	ring   []*group // with connections in their queue, whose turn comes first
	groups map[*tail]*group
	load   int // connections
}

// group is the connections of a pump that read the same channel (of several,
// their first). Groups take turns, so that a channel with many readers does not
// keep the others waiting. Guarded by pump.mu.
type group struct {
	queue  []*Outlet
	head   int // of queue: those before it have been served
	inRing bool
	refs   int
}

// writing is what a pump uses again from one write to the next.
type writing struct {
	Pieces
	items []Item

	call func(fd uintptr) bool // see write
	n    int
	err  error
}

// pumps is all pumps of a broker.
type pumps struct {
	all  []*pump
	ear  *ear
	stop chan struct{}
	once sync.Once // start
	end  sync.Once // close(stop)
	wg   sync.WaitGroup
}

// start runs one pump a processor and the sweep; called once, with the first
// connection.
func (ps *pumps) start(b *Broker) {
	for range runtime.GOMAXPROCS(0) {
		p := &pump{wake: make(chan struct{}, 1), groups: map[*tail]*group{}}
		ps.all = append(ps.all, p)
		ps.wg.Go(func() { p.run(ps.stop) })
	}
	ps.wg.Go(func() { b.sweepOutlets(ps.stop) })
	ps.wg.Go(func() { ps.ear.run(&ps.wg) })
}

// CanPump reports whether connections can be given to a pump: on Linux, unless
// it has no descriptors left. Else each is served by its handler.
func (b *Broker) CanPump() bool { return b.pumps.ear != nil }

// close ends the pumps once every connection is shut.
func (ps *pumps) close(open []*Outlet) {
	for _, o := range open {
		o.shut()
	}
	if ps.ear == nil {
		return
	}
	ps.end.Do(func() {
		close(ps.stop)
		ps.ear.stop()
		ps.wg.Wait()
		ps.ear.close()
	})
}

// startPumps starts them with the first connection.
func (b *Broker) startPumps() { b.pumps.once.Do(func() { b.pumps.start(b) }) }

// least is the pump with the fewest connections.
func (ps *pumps) least() *pump {
	best, least := ps.all[0], int(^uint(0)>>1)
	for _, p := range ps.all {
		p.mu.Lock()
		load := p.load
		p.mu.Unlock()
		if load < least {
			best, least = p, load
		}
	}
	return best
}

// enter makes the outlet the pump's, in the group of a channel (nil: none).
func (p *pump) enter(o *Outlet, t *tail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groups[t]
	if g == nil {
		g = &group{}
		p.groups[t] = g
	}
	g.refs++
	p.load++
	o.pump, o.group, o.key = p, g, t
}

func (p *pump) leave(o *Outlet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.load--
	if o.group.refs--; o.group.refs == 0 {
		delete(p.groups, o.key)
	}
}

// push queues an outlet.
func (p *pump) push(o *Outlet) {
	p.mu.Lock()
	g := o.group
	if len(g.queue) == cap(g.queue) && g.head > len(g.queue)/2 {
		// A group that is never served to its end: what was served goes.
		n := copy(g.queue, g.queue[g.head:])
		clear(g.queue[n:])
		g.queue, g.head = g.queue[:n], 0
	}
	g.queue = append(g.queue, o)
	sleeping := len(p.ring) == 0
	if !g.inRing {
		g.inRing = true
		p.ring = append(p.ring, g)
	}
	p.mu.Unlock()
	if sleeping {
		kick(p.wake)
	}
}

// pop gives the first group's next few outlets; nil when there are none. next:
// the group's turn is over.
func (p *pump) pop(buf []*Outlet, next bool) []*Outlet {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ring) == 0 {
		return nil
	}
	g := p.ring[0]
	if next && len(p.ring) > 1 {
		copy(p.ring, p.ring[1:])
		p.ring[len(p.ring)-1] = g
		g = p.ring[0]
	}
	n := copy(buf, g.queue[g.head:])
	clear(g.queue[g.head : g.head+n])
	if g.head += n; g.head == len(g.queue) {
		g.queue, g.head, g.inRing = g.queue[:0], 0, false
		p.ring = append(p.ring[:0], p.ring[1:]...)
	}
	return buf[:n]
}

// run serves the queues until stop.
func (p *pump) run(stop <-chan struct{}) {
	var w writing
	buf := make([]*Outlet, turnCheck)
	var turn time.Time
	over := false
	for {
		list := p.pop(buf, over)
		now := time.Now()
		if len(list) == 0 {
			select {
			case <-p.wake:
				turn, over = time.Now(), false
			case <-stop:
				return
			}
			continue
		}
		if over {
			turn = now
		}
		for i, o := range list {
			o.serve(&w, now)
			list[i] = nil
		}
		over = time.Since(turn) >= turnTime
	}
}

// sweepOutlets is the one clock for all connections.
func (b *Broker) sweepOutlets(stop <-chan struct{}) {
	tick := time.NewTicker(sweepOutlets)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, o := range b.outlets() {
				o.sweep(now)
			}
		case <-stop:
			return
		}
	}
}

// outlets is every connection in a pump's care.
func (b *Broker) outlets() []*Outlet {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*Outlet, 0, len(b.subs))
	for s := range b.subs {
		if o := s.outlet.Load(); o != nil {
			list = append(list, o)
		}
	}
	return list
}
