package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// published is what became of one channel's messages. Sequences run from 1 to
// last; those in neither set were acknowledged.
type published struct {
	last    int64
	refused spans // told that nothing was appended, or never sent
	unknown spans // 504, or the connection was cut or silent
}

// acknowledged counts the acknowledged ones inside [lo, hi).
func (p *published) acknowledged(lo, hi int64) int64 {
	return hi - lo - p.refused.within(lo, hi) - p.unknown.within(lo, hi)
}

// publishTimeout is how long an answer is waited for. A server answers within
// twice its own limit on the log (2 s by default).
const publishTimeout = 10 * time.Second

// publication drives all publishers through the open schedule: message i is due
// at start + i/rate on channel i mod channels, whatever became of those before.
type publication struct {
	opts     *Options
	to       []target
	run      string
	now      func() int64
	channels []published // each belongs to its publisher until done

	acked atomic.Int64 // so far, for the progress line
	done  chan struct{}

	mu      sync.Mutex     // guards the following fields
	calls   *hdr.Histogram // the publish call, µs
	wakes   *hdr.Histogram // how late the generator itself woke for a message, µs
	behind  int64          // the most a message was sent behind its time, ns
	lastAt  int64          // when the last answer came
	failure string         // the first refusal or failure, in words
}

func newPublication(o *Options, to []target, run string, now func() int64) *publication {
	return &publication{
		opts: o, to: to, run: run, now: now,
		channels: make([]published, o.Channels),
		calls:    newDelays(), wakes: newDelays(),
		done: make(chan struct{}),
	}
}

// start begins the schedule; done is closed when it is over or ctx is.
func (p *publication) start(ctx context.Context) {
	begin := p.now()
	var wg sync.WaitGroup
	for n := range p.opts.publishers() {
		wg.Go(func() { (&publisher{publication: p, server: n % len(p.to)}).work(ctx, n, begin) })
	}
	go func() { wg.Wait(); close(p.done) }()
}

// publisher is one connection that publishes on every k-th channel, one message
// after the other.
type publisher struct {
	*publication
	server  int // index of to
	conn    net.Conn
	read    *bufio.Reader
	answer  response
	usedAt  int64
	request []byte
}

func (p *publisher) work(ctx context.Context, n int, begin int64) {
	defer p.hangUp()
	total, step := p.opts.total(), p.opts.publishers()
	for round := 0; ; round++ {
		for c := n; c < p.opts.Channels; c += step {
			i := round*p.opts.Channels + c
			if i >= total {
				return
			}
			due := begin + int64(float64(i)/p.opts.Rate*1e9)
			slept, err := sleepUntil(ctx, p.now, due)
			if err != nil {
				return
			}
			p.publish(ctx, c, due, slept)
		}
	}
}

// sleepUntil reports whether it had to sleep.
func sleepUntil(ctx context.Context, now func() int64, at int64) (slept bool, err error) {
	d := at - now()
	if d <= 0 {
		return false, ctx.Err()
	}
	t := time.NewTimer(time.Duration(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// outcome of a publish call.
type outcome uint8

const (
	acknowledged outcome = iota
	refused
	unknown
)

func (p *publisher) publish(ctx context.Context, channel int, due int64, slept bool) {
	ch := &p.channels[channel]
	seq := ch.last + 1
	at := p.now()
	out, err := p.call(ctx, stamp{channel: channel, seq: seq, at: at})
	end := p.now()

	ch.last = seq
	switch out {
	case acknowledged:
		p.acked.Add(1)
	case refused:
		ch.refused.add(seq, seq+1)
	case unknown:
		ch.unknown.add(seq, seq+1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if out == acknowledged {
		record(p.calls, end-at)
	}
	if slept {
		record(p.wakes, at-due)
	}
	p.behind = max(p.behind, at-due)
	p.lastAt = max(p.lastAt, end)
	if err != nil && p.failure == "" {
		p.failure = err.Error()
	}
}

// call sends one message and waits for its answer.
func (p *publisher) call(ctx context.Context, s stamp) (outcome, error) {
	if p.conn != nil && s.at-p.usedAt > int64(5*time.Second) {
		p.hangUp() // the server may be about to close it: a cut now would be an unknown outcome for nothing
	}
	if p.conn == nil {
		d := net.Dialer{Timeout: publishTimeout}
		conn, err := d.DialContext(ctx, "tcp", p.to[p.server].addr.String())
		if err != nil {
			p.failOver()
			return refused, fmt.Errorf("publish: %w", err)
		}
		p.conn, p.read = conn, bufio.NewReaderSize(conn, 4<<10)
	}
	b := append(p.request[:0], "POST "...)
	b = append(b, p.to[p.server].path...)
	b = append(b, "/v1/channels/"...)
	b = append(b, p.opts.channelName(s.channel)...)
	b = append(b, "/messages HTTP/1.1\r\nHost: "...)
	b = append(b, p.to[p.server].host...)
	b = append(b, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(p.opts.Size), 10)
	b = append(b, "\r\n\r\n"...)
	b = appendPayload(b, p.run, s, p.opts.Size)
	p.request = b

	_ = p.conn.SetDeadline(time.Now().Add(publishTimeout)) // fails only on a closed connection, as the write then does
	if _, err := p.conn.Write(b); err != nil {
		p.failOver()
		return unknown, fmt.Errorf("publish: %w", err)
	}
	status, detail, err := p.readAnswer()
	p.usedAt = p.now()
	if err != nil {
		p.failOver()
		return unknown, fmt.Errorf("publish: %w", err)
	}
	if p.answer.close {
		p.hangUp()
	}
	switch {
	case status == 201:
		return acknowledged, nil
	case status == 504:
		return unknown, fmt.Errorf("publish: 504 %s", detail)
	}
	return refused, fmt.Errorf("publish: %d %s", status, detail)
}

var errCut = errors.New("the connection was cut before the answer was whole")

// readAnswer reads one response; detail is the beginning of its body.
func (p *publisher) readAnswer() (status int, detail []byte, err error) {
	p.answer.reset()
	for !p.answer.done() {
		if _, err := p.read.Peek(1); err != nil {
			return 0, nil, fmt.Errorf("%w: %w", errCut, err)
		}
		p2, _ := p.read.Peek(p.read.Buffered())
		body, rest, err := p.answer.next(p2)
		if err != nil {
			return 0, nil, err
		}
		if p.answer.status/100 != 2 {
			detail = append(detail, body[:min(len(body), 200-len(detail))]...)
		}
		_, _ = p.read.Discard(len(p2) - len(rest))
	}
	return p.answer.status, detail, nil
}

// failOver leaves a server that does not answer for the next.
func (p *publisher) failOver() {
	p.hangUp()
	p.server = (p.server + 1) % len(p.to)
}

func (p *publisher) hangUp() {
	if p.conn != nil {
		_ = p.conn.Close() // nothing is in flight that its error could tell of
		p.conn = nil
	}
}
