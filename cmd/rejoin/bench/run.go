package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Bounds of a run's waits beside its duration.
const (
	joinTimeout  = 30 * time.Second // from the last connection due to the last ready
	drainTimeout = 2 * time.Minute
	longest      = 1000 * time.Hour
	look         = 5 * time.Millisecond // how often the run looks at its counters
)

// Run runs the load and returns what it found. Losses and the like are in the
// result; an error is a run that could not be made: bad options, too few open
// files, subscribers that did not all get ready, no server. When ctx ends while
// messages are published the run stops publishing and is judged as far as it
// went.
func Run(ctx context.Context, o Options) (*Result, error) {
	return run(ctx, o, newFleetOf)
}

func run(ctx context.Context, o Options, fleetOf func(*shared) *fleet) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	to, err := o.resolve()
	if err != nil {
		return nil, err
	}
	if err := wantFiles(o.openFiles()); err != nil {
		return nil, err
	}
	before, err := readProcesses(o.Processes)
	if err != nil {
		return nil, err
	}
	base := time.Now()
	s := &shared{opts: &o, to: to, run: runName(), now: func() int64 { return int64(time.Since(base)) }}
	r := &running{shared: s, fleet: fleetOf(s), publication: newPublication(&o, to, s.run, s.now)}
	r.progress = newTicker(r)

	r.fleet.start()
	defer r.rampDown()
	if err := r.join(ctx); err != nil {
		return nil, err
	}
	if err := r.pause(ctx, o.Settle); err != nil {
		return nil, err
	}
	connected, err := readProcesses(o.Processes)
	if err != nil {
		return nil, err
	}
	connections := r.meters.sum().open
	mark := r.mark()
	r.progress.publishing(serverCPU(&o, connected))
	r.publication.start(ctx)
	s.churn.Store(o.Life > 0)
	if err := r.wait(r.publication.done); err != nil {
		return nil, err
	}
	interrupted := ctx.Err() != nil
	if err := r.drain(); err != nil {
		return nil, err
	}
	end := r.mark()
	after, err := readProcesses(o.Processes)
	if err != nil {
		return nil, fmt.Errorf("%w (did the process end during the run?)", err)
	}
	// Repeats of the last message would come now.
	if err := r.pause(context.WithoutCancel(ctx), o.Quiet/20); err != nil {
		return nil, err
	}
	r.rampDown()

	res := r.result(mark, end)
	res.Connections = connections
	res.Interrupted = interrupted
	for i, p := range o.Processes {
		u := ProcessUse{
			Name: p.Name, PID: p.PID, URL: p.URL,
			CPUS:        (after[i].cpu - connected[i].cpu).Seconds(),
			RSSBeforeKB: before[i].rssKB, RSSConnectedKB: connected[i].rssKB, RSSEndKB: after[i].rssKB,
			PeakKB:          max(after[i].peakKB, after[i].rssKB),
			KBPerConnection: float64(connected[i].rssKB-before[i].rssKB) / float64(o.Subscribers+o.Slow),
			Used:            before[i].cpu > usedCPU,
		}
		if res.Delivered > 0 {
			u.USPerDelivery = 1e6 * u.CPUS / float64(res.Delivered)
		}
		res.Processes = append(res.Processes, u)
	}
	return res, nil
}

func runName() string {
	var b [4]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func readProcesses(all []Process) (uses []usage, err error) {
	for _, p := range all {
		u, err := p.read()
		if err != nil {
			return nil, err
		}
		uses = append(uses, u)
	}
	return uses, nil
}

// running is a run under way. Its methods are called by one goroutine.
type running struct {
	*shared
	*fleet
	publication *publication
	progress    *ticker
	lastGain    int64 // when a delivery was last seen
	downAlready bool
}

// until looks at done every few milliseconds until it says so, ctx ends, a
// reader fails or the time is over; the last is reported by late.
func (r *running) until(ctx context.Context, limit time.Duration, done func() bool) (late bool, err error) {
	t := time.NewTicker(look)
	defer t.Stop()
	end := r.now() + int64(limit)
	for ctx.Err() == nil && !done() {
		if r.now() >= end {
			return true, nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case err := <-r.failed:
			return false, err
		}
		r.progress.look()
	}
	return false, context.Cause(ctx)
}

func (r *running) pause(ctx context.Context, d time.Duration) error {
	_, err := r.until(ctx, d, func() bool { return false })
	return err
}

// wait waits for done, which is bounded by itself.
func (r *running) wait(done <-chan struct{}) error {
	_, err := r.until(context.Background(), longest, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	return err
}

// join waits until every subscriber was told ready and every slow reader has
// asked.
func (r *running) join(ctx context.Context) error {
	want := counts{joined: int64(r.opts.Subscribers), slowOpen: int64(r.opts.Slow)}
	var c counts
	limit := joinTimeout + time.Duration(float64(len(r.clients))/r.opts.ConnectRate*1e9)
	late, err := r.until(ctx, limit, func() bool {
		c = r.meters.sum()
		return c.joined == want.joined && c.slowOpen+c.slowCut >= want.slowOpen || c.joined == 0 && c.dropped > 0
	})
	if err != nil {
		return err
	}
	if !late && c.joined == 0 {
		return fmt.Errorf("no subscriber got through to %s: %s", strings.Join(r.opts.URLs, ", "), r.meters.failure())
	}
	if late {
		why := r.meters.failure()
		if why == "" {
			why = "no failure was told: rejoin.ready never came"
		}
		return fmt.Errorf("%s of %s subscribers were told ready by %s within %s: %s",
			group(c.joined), group(want.joined), strings.Join(r.opts.URLs, ", "), limit.Round(time.Second), why)
	}
	return nil
}

// drain waits for what is still under way. It is over at once when everything
// acknowledged has come; with outcomes unknown, or messages missing, when
// nothing came for a while.
func (r *running) drain() error {
	r.progress.phase = Draining
	expected, unknown := int64(0), int64(0)
	readers := r.opts.readersOf()
	for i := range r.publication.channels {
		p := &r.publication.channels[i]
		expected += p.acknowledged(1, p.last+1) * readers[i]
		unknown += p.unknown.count()
	}
	have, since := int64(0), r.now()
	_, err := r.until(context.Background(), drainTimeout, func() bool {
		if d := r.meters.sum().delivered; d != have {
			have, since = d, r.now()
		}
		return unknown == 0 && have >= expected || r.now()-since > int64(r.opts.Quiet)
	})
	r.lastGain = since
	return err
}

// readersOf is how many subscribers each channel has.
func (o *Options) readersOf() []int64 {
	all := make([]int64, o.Channels)
	for i := range o.Subscribers {
		for j := range o.ChannelsPerConnection {
			all[(o.firstChannel(i)+j)%o.Channels]++
		}
	}
	return all
}

// serverCPU is the CPU time of the server among the processes' uses.
func serverCPU(o *Options, uses []usage) time.Duration {
	for i := range uses {
		if &o.Processes[i] == serverOf(o.Processes) {
			return uses[i].cpu
		}
	}
	return 0
}

// rampDown closes all connections at the rate they were opened and waits for
// it; a second call does nothing.
func (r *running) rampDown() {
	if r.downAlready {
		return
	}
	r.downAlready = true
	r.progress.leaving()
	r.end.Store(r.now())
	gone := make(chan struct{})
	go func() { r.wg.Wait(); close(gone) }()
	_ = r.wait(gone) // a reader that failed has nothing left to close
	<-gone
	r.progress.finish()
}

// mark is the state of clocks at one moment.
type mark struct {
	at        int64
	own       time.Duration
	readers   []time.Duration
	idle, all time.Duration
}

func (r *running) mark() mark {
	m := mark{at: r.now(), own: ownCPU(), readers: r.fleet.busy()}
	m.idle, m.all = machineTime()
	return m
}

// result puts together what readers and publishers found; both are over.
func (r *running) result(from, to mark) *Result {
	o, p, c := r.opts, r.publication, r.meters.sum()
	res := &Result{
		URLs: o.URLs, Transport: o.Transport, Subscribers: o.Subscribers, Channels: o.Channels,
		ChannelsPerConnection: o.ChannelsPerConnection, Rate: o.Rate, Size: o.Size, DurationS: o.Duration.Seconds(), LifeS: o.Life.Seconds(),
		SlowAsked: o.Slow, Publishers: o.publishers(),
		Failure: r.meters.failure(), PublishFailed: p.failure,
		Reconnects: c.reconnects, Dropped: c.dropped, Moved: c.moved, SlowCut: c.slowCut,
		Gaps: c.gaps, Violations: c.violations, Foreign: c.foreign, BytesRead: c.bytes,
		Latency: delaysOf(r.meters.delays()), PublishCall: delaysOf(p.calls),
		Processes: []ProcessUse{}, Series: r.progress.series,
	}
	for i := range p.channels {
		ch := &p.channels[i]
		res.Published += ch.acknowledged(1, ch.last+1)
		res.Refused += ch.refused.count()
		res.Unknown += ch.unknown.count()
	}
	var v verdict
	for _, k := range r.clients {
		if !k.slow {
			for i := range k.accounts {
				v.plus(k.accounts[i].close(&p.channels[k.channel(i)]))
			}
		}
	}
	res.Expected, res.Delivered = v.expected, v.got
	res.Lost, res.InGaps, res.Repeated = v.lost, v.told, v.repeated
	res.OutOfOrder, res.AfterReset = v.outOfOrder, v.again
	res.Violations += v.ghosts
	if c.foreign == 0 { // another's messages may be what a gap told of
		res.Violations += v.alarms
	}

	res.Seconds = max(float64(r.lastGain-from.at)/1e9, 1e-3)
	res.DeliveredPerS = float64(v.got) / res.Seconds
	if d := float64(p.lastAt-from.at) / 1e9; d > 0 {
		res.PublishedPerS = float64(res.Published) / d
	}
	span := max(to.at-from.at, 1)
	g := &res.Generator
	g.CPUS = (to.own - from.own).Seconds()
	for i := range to.readers {
		g.BusiestReader = max(g.BusiestReader, float64(to.readers[i]-from.readers[i])/float64(span))
	}
	if all := to.all - from.all; all > 0 {
		g.MachineBusy = 1 - float64(to.idle-from.idle)/float64(all)
	}
	g.WakeLateP99MS = float64(p.wakes.ValueAtQuantile(99)) / 1e3
	g.BehindMaxMS = float64(p.behind) / 1e6
	g.judge(res.PublishCall)
	res.settle()
	return res
}
