package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"rejoin/stream"
)

// Transport is a way to read. All carry the same, and a cursor is good on each.
type Transport uint8

// The transports.
const (
	SSE       Transport = iota // Server-Sent Events: a stream; goes through most proxies
	LongPoll                   // one request for each answer: goes through all of them
	WebSocket                  // for where proxies hold streams back but pass upgrades
)

// String is the transport's name on the command line.
func (t Transport) String() string {
	switch t {
	case SSE:
		return "sse"
	case LongPoll:
		return "longpoll"
	case WebSocket:
		return "ws"
	}
	return "Transport(" + strconv.Itoa(int(t)) + ")"
}

// Earliest as [SubscribeOptions].After is before everything retained.
const Earliest = "earliest"

// SubscribeOptions say what to read and from where. Only Channels is needed:
// without a start it is live, from now on.
type SubscribeOptions struct {
	Channels  []string
	Transport Transport

	// After is a cursor, from an [Event] or a message's id, or [Earliest].
	After string
	// Where a channel starts that After does not speak of; at most one of them.
	Rewind   int           // with the newest so many messages
	Since    time.Time     // with those published from then on
	SinceAgo time.Duration // the same, so long ago by the log's clock

	// Heartbeat is after how long without a message the server gives a sign of
	// life (5 s to 120 s; 15 s). A connection on which nothing came for twice as
	// long is given up. A long-poll is held for this long (25 s, at most 60 s).
	Heartbeat time.Duration
}

// Subscribe reads channels for as long as the loop over it runs:
//
//	for event, err := range c.Subscribe(ctx, client.SubscribeOptions{Channels: []string{"news"}}) {
//
// Each message comes once and in order, whatever happens to connections, servers
// and the log in between; what can no longer be had is told as a [Gap].
// A connection that breaks is opened again behind what was yielded last, after
// the time that the server asked for, then with full jitter.
//
// The loop ends without an error when ctx ends, and when all channels have
// ended. An error is the last thing it yields: an [*Error] if a server refused
// the subscription for good, such as for a token that has run out. Whatever can
// pass is a [Disconnected] event instead, and is tried again without an end.
//
// It uses no goroutine: while the loop's body runs, nothing is read, and the
// server keeps no more than its socket holds. Each loop over the same iterator
// is a new subscription.
func (c *Client) Subscribe(ctx context.Context, o SubscribeOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s, err := newSubscription(c, o, yield)
		if err != nil {
			yield(nil, err)
			return
		}
		if err := s.run(ctx); err != nil && !s.stopped {
			yield(nil, err)
		}
	}
}

// subscription is one loop's reading: a cursor, and what belongs to it. One
// goroutine has it.
type subscription struct {
	c        *Client
	channels []string
	start    url.Values // what every connection asks for
	hold     time.Duration
	connect  func(ctx context.Context, server *url.URL) error
	yield    func(Event, error) bool
	stopped  bool // the loop was left

	cursor string // behind what was yielded last; "" before the first ready
	places places // the same in each channel
	ended  map[string]bool

	// Of the connection:
	up    bool          // it was told ready
	retry time.Duration // what the server asked to wait; 0: nothing
	moved bool          // it was told to move
	state StateName     // that was told last
}

// How a connection ends, beside errors of the network and the server.
var (
	errStopped = errors.New("client: the loop was left")
	errOver    = errors.New("client: all channels have ended")
	errMoved   = errors.New("client: moving to another connection, as the server asked")
	errExpired = errors.New("client: the token has run out")
	errCut     = errors.New("client: the server closed the connection")
)

func newSubscription(c *Client, o SubscribeOptions, yield func(Event, error) bool) (*subscription, error) {
	s := &subscription{c: c, hold: 15 * time.Second, yield: yield, start: url.Values{}, cursor: o.After, ended: map[string]bool{}}
	for _, name := range o.Channels {
		if err := stream.CheckChannel(name); err != nil {
			return nil, fmt.Errorf("client: %q: %w", name, err)
		}
		if !slices.Contains(s.channels, name) {
			s.channels = append(s.channels, name)
		}
	}
	if s.channels == nil {
		return nil, errors.New("client: want at least one channel to subscribe to")
	}
	s.start["channel"] = s.channels

	starts := 0
	begin := func(given bool, name, value string) {
		if given {
			starts++
			s.start.Set(name, value)
		}
	}
	begin(o.Rewind > 0, "rewind", strconv.Itoa(o.Rewind))
	begin(!o.Since.IsZero(), "since", strconv.FormatInt(max(0, o.Since.UnixMilli()), 10))
	begin(o.SinceAgo > 0, "since", o.SinceAgo.String())
	if starts > 1 || o.Rewind < 0 || o.SinceAgo < 0 {
		return nil, errors.New("client: Rewind, Since and SinceAgo: want at most one of them, and none below 0")
	}
	if o.Heartbeat != 0 {
		if o.Heartbeat < 5*time.Second || o.Heartbeat > 2*time.Minute {
			return nil, fmt.Errorf("client: Heartbeat is %v: want 5s to 2m", o.Heartbeat)
		}
		s.hold = o.Heartbeat
	}
	cursor, err := s.checkCursor(o.After)
	if err != nil {
		return nil, err
	}
	s.places = newPlaces(s.channels, cursor)
	switch o.Transport {
	case SSE:
		s.connect = s.sse
	case LongPoll:
		if s.connect = s.poll; o.Heartbeat == 0 {
			s.hold = 25 * time.Second
		}
	case WebSocket:
		s.connect = s.socket
	default:
		return nil, fmt.Errorf("client: %v is no transport", o.Transport)
	}
	return s, nil
}

// checkCursor refuses a cursor that servers would take for one of another log:
// here it is a fault of the caller's.
func (s *subscription) checkCursor(text string) (*stream.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	cursor, err := stream.ParseCursor(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: After: %w", err)
	case len(s.channels) > 1 && cursor.Bare():
		return nil, errors.New("client: After: the id of one channel says nothing about several: want the whole cursor of an event")
	}
	return &cursor, nil
}

// run keeps a connection until the subscription is over; its error is for good.
func (s *subscription) run(ctx context.Context) error {
	servers := s.c.from()
	var (
		tries   int           // since a connection stood
		hint    time.Duration // the longest wait that servers asked for meanwhile
		pause   backoff
		attempt int
	)
	for ctx.Err() == nil {
		server := servers[attempt%len(servers)]
		attempt++
		s.up, s.moved, s.retry, s.state = false, false, 0, ""
		begun := time.Now()
		err := s.connect(ctx, server)
		switch {
		case s.stopped || errors.Is(err, errOver) || ctx.Err() != nil:
			return nil
		case errors.Is(err, errExpired):
			if s.c.o.TokenFunc == nil {
				return &Error{Status: http.StatusUnauthorized, Code: CodeUnauthorized, Detail: "the token has run out"}
			}
		case !temporary(err):
			return err
		}

		var wait time.Duration
		if s.up {
			tries, hint, pause = 0, 0, backoff{}
			switch {
			case s.moved && time.Since(begun) > firstWait: // spread already
			case s.retry > 0:
				wait = s.retry
			default:
				wait = pause.next()
			}
		} else {
			tries++
			hint = max(hint, s.retry, retryAfter(err))
			if tries%len(servers) == 0 { // all have been tried
				wait, hint = min(hint, mostRetryAfter)+pause.next(), 0
			}
		}
		if !(s.up && s.moved) && !s.tell(Disconnected{at(s.cursor), err, wait}) {
			return nil
		}
		if sleep(ctx, wait) != nil {
			return nil
		}
	}
	return nil
}

// tell yields an event and reports whether the loop goes on.
func (s *subscription) tell(e Event) bool {
	s.stopped = s.stopped || !s.yield(e, nil)
	return !s.stopped
}

// told is tell within a connection: its error ends it.
func (s *subscription) told(e Event) error {
	if !s.tell(e) {
		return errStopped
	}
	return nil
}

// end yields the end of a channel, once.
func (s *subscription) end(channel string, id stream.ID) error {
	if !s.ended[channel] {
		s.ended[channel] = true
		if err := s.told(End{at(s.cursor), channel, id}); err != nil {
			return err
		}
	}
	if len(s.ended) == len(s.channels) {
		return errOver
	}
	return nil
}

// query is what the next connection asks for.
func (s *subscription) query() url.Values {
	q := url.Values{}
	for name, values := range s.start {
		q[name] = values
	}
	if s.cursor != "" {
		q.Set("lastEventId", s.cursor)
	}
	return q
}

// A line is one connection's clock: it gives up a connection on which nothing
// comes, and leaves one that is to move.
type line struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // runs while something is waited for
	move   *time.Timer // nil until told to move
}

// open begins a line: something has to come within d.
func open(ctx context.Context, d time.Duration) *line {
	l := &line{}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(d, func() { l.cancel(errNoAnswer) })
	return l
}

// await gives the other side so long, from now, to be heard of.
func (l *line) await(d time.Duration) { l.timer.Reset(d) }

// heard stops the clock: what follows is this side's time.
func (l *line) heard() { l.timer.Stop() }

// leave ends the line at a random moment within d.
func (l *line) leave(d time.Duration) {
	at := time.Duration(0)
	if d > 0 {
		at = rand.N(d)
	}
	if l.move == nil {
		l.move = time.AfterFunc(at, func() { l.cancel(errMoved) })
	}
}

func (l *line) close() {
	l.timer.Stop()
	if l.move != nil {
		l.move.Stop()
	}
	l.cancel(nil)
}

// why is err, or the reason why this side ended the line.
func (l *line) why(err error) error {
	if cause := context.Cause(l.ctx); cause != nil && err != nil {
		return cause
	}
	return err
}
