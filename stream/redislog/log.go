package redislog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

// Log is the log in Redis. Make one with [Open].
type Log struct {
	opts     Options
	keys     keyspace
	target   target
	topology topology
	nodes    *nodes
	known    *known

	appendScript, deleteScript *redis.Script

	offset atomic.Int64  // Redis' clock minus ours, nanoseconds
	clock  atomic.Uint64 // tests: what the append takes for the clock, ms; 0: Redis' own

	agreeing lock
	agreed   atomic.Pointer[agreement] // nil until Redis was asked

	mu       sync.Mutex // guards below
	closed   bool
	sessions map[*session]struct{}
}

// agreement is the outcome of comparing the number of partitions: nil, or why
// this log can serve nothing.
type agreement struct{ err error }

var _ stream.Log = (*Log)(nil)

// Open makes a Log. It asks Redis once, within Options.Timeout: a number of
// partitions other than the one stored, or a refused password, is an error. A
// Redis that does not answer is none; the question is then put by the first call
// that gets through, and its answer is what every call returns.
func Open(ctx context.Context, o Options) (*Log, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	t, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	script := o.script
	if script == "" {
		script = commonLua + appendLua
	}
	l := &Log{
		opts:         o,
		keys:         keyspace{prefix: o.Prefix, partitions: o.Partitions},
		target:       t,
		topology:     newTopology(&t, o.Partitions),
		known:        newKnown(),
		appendScript: redis.NewScript(script),
		deleteScript: redis.NewScript(commonLua + deleteLua),
		agreeing:     newLock(),
		sessions:     map[*session]struct{}{},
	}
	l.nodes = newNodes(&l.target, o.Timeout)
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := l.agree(ctx); err != nil {
		err = failure("open", "", err, false)
		if errors.Is(err, stream.ErrUnavailable) {
			l.opts.Log("Redis does not answer yet; starting without it", err)
			return l, nil
		}
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// agree stores the number of partitions or compares it with the one stored, once.
func (l *Log) agree(ctx context.Context) error {
	if a := l.agreed.Load(); a != nil {
		return a.err
	}
	if err := l.agreeing.take(ctx); err != nil {
		return err
	}
	defer l.agreeing.give()
	if a := l.agreed.Load(); a != nil {
		return a.err
	}
	var stored string
	err := l.route(ctx, 0, func(ctx context.Context, c *redis.Client) (err error) {
		sent := time.Now()
		if t, err := c.Time(ctx).Result(); err == nil {
			l.heardClock(sent, t)
		}
		if stored, err = c.Get(ctx, l.keys.count()).Result(); err != redis.Nil {
			return err
		}
		if err = c.SetNX(ctx, l.keys.count(), l.opts.Partitions, 0).Err(); err != nil {
			return err
		}
		stored, err = c.Get(ctx, l.keys.count()).Result()
		return err
	})
	if err != nil {
		return err
	}
	l.compare(stored)
	return l.agreed.Load().err
}

// compare keeps what the stored number of partitions means for this log.
func (l *Log) compare(stored string) {
	if stored == strconv.Itoa(l.opts.Partitions) {
		l.agreed.Store(&agreement{})
		return
	}
	err := &stream.Error{Op: "open", Kind: stream.ErrBroken,
		Err:  fmt.Errorf("redis.partitions is %d here but %s in Redis (%s)", l.opts.Partitions, stored, l.keys.count()),
		Hint: fmt.Sprintf("set redis.partitions to %s: it cannot be changed once messages are stored; or use another redis.prefix", stored)}
	l.agreed.Store(&agreement{err: err})
	l.opts.Log("this server and Redis disagree; nothing can be served", err)
}

// call is one call of the contract on one part: bounded in time, counted, with
// its error told truthfully. wrote: f runs a script that writes.
func (l *Log) call(ctx context.Context, op, channel string, part int, wrote bool, f func(context.Context, *redis.Client) error) error {
	if l.over() {
		return &stream.Error{Op: op, Channel: channel, Kind: stream.ErrClosed}
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	start := time.Now()
	err := l.agree(ctx)
	if err != nil {
		err = failure(op, channel, err, false)
	} else if err = l.route(ctx, part, f); err != nil {
		err = failure(op, channel, err, wrote)
	}
	if err == nil {
		l.opts.Meter.RoundTrip(op, time.Since(start))
		return nil
	}
	if l.over() && errors.Is(err, stream.ErrUnavailable) {
		err = &stream.Error{Op: op, Channel: channel, Kind: stream.ErrClosed}
	}
	l.opts.Meter.Error(op, errorKind(err))
	return err
}

// route runs f on the part's master, and once more on another that the first
// named instead of itself.
func (l *Log) route(ctx context.Context, part int, f func(context.Context, *redis.Client) error) error {
	for again := true; ; again = false {
		addr, err := l.topology.master(ctx, part)
		if err != nil {
			return &stream.Error{Op: "find the master", Kind: stream.ErrUnavailable, Err: err}
		}
		err = l.nodes.call(ctx, addr, func(c *redis.Client) error { return f(ctx, c) })
		if err == nil {
			return nil
		}
		if errors.Is(err, stream.ErrConflict) || errors.Is(err, stream.ErrEnded) {
			return err
		}
		if moved := l.topology.doubt(part, err); !moved || !again {
			return err
		}
	}
}

// errorKind is the kind that an error of the contract wraps.
func errorKind(err error) error {
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return e.Kind
	}
	return err
}

// Known implements [stream.Log].
func (l *Log) Known(channel string) stream.ID { return l.known.get(channel).last }

// Now implements [stream.Log]: Redis' clock, as of the last audit or read.
func (l *Log) Now() time.Time { return time.Now().Add(time.Duration(l.offset.Load())) }

// heardClock keeps what a TIME that was asked at sent and answered now says.
func (l *Log) heardClock(sent time.Time, redisTime time.Time) {
	took := time.Since(sent)
	l.offset.Store(int64(redisTime.Sub(sent.Add(took / 2))))
}

// Parts implements [stream.Log]: the partitions of a Cluster, else 1.
func (l *Log) Parts() int { return l.topology.parts() }

// Part implements [stream.Log].
func (l *Log) Part(channel string) int {
	if l.topology.parts() == 1 {
		return 0
	}
	return l.keys.partition(channel)
}

// partitions are those that a part holds.
func (l *Log) partitions(part int) (list []int) {
	if l.topology.parts() > 1 {
		return []int{part}
	}
	for p := range l.opts.Partitions {
		list = append(list, p)
	}
	return list
}

func (l *Log) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Close implements [stream.Log]. Calls in flight end with an error.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	sessions := make([]*session, 0, len(l.sessions))
	for s := range l.sessions {
		sessions = append(sessions, s)
	}
	l.mu.Unlock()
	for _, s := range sessions {
		s.Close()
	}
	l.nodes.close()
	return nil
}
