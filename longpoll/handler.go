package longpoll

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"rejoin/delivery"
	"rejoin/stream"
)

// Options of a Handler; the zero value of each but Broker is useful.
type Options struct {
	Broker *delivery.Broker
	// RetryMin and RetryMax are between what a client is told to wait after a
	// poll that failed (500 ms, 3 s), at random for each answer.
	RetryMin, RetryMax time.Duration
	// Stuck is how long a write may go without progress before the connection
	// ends (10 s).
	Stuck time.Duration
	// Fail answers a request with an error. With it, the connection of a poll that
	// is held is taken from the HTTP server and given back with the answer; nil:
	// it keeps its handler's goroutine and the server's buffers.
	Fail func(http.ResponseWriter, *http.Request, error)
}

// Handler serves polls.
type Handler struct {
	o      Options
	parked sync.WaitGroup // polls whose connections were taken over
}

// Wait returns when every connection that was taken over has been given back or
// closed; closing the broker ends them. No request may come meanwhile.
func (h *Handler) Wait() { h.parked.Wait() }

// New makes a handler.
func New(o Options) *Handler {
	if o.RetryMin <= 0 {
		o.RetryMin = 500 * time.Millisecond
	}
	if o.RetryMax < o.RetryMin {
		o.RetryMax = max(o.RetryMin, 3*time.Second)
	}
	if o.Stuck <= 0 {
		o.Stuck = 10 * time.Second
	}
	return &Handler{o: o}
}

// patience is how long a poll that has something waits for the rest of what is
// there already, read from the log.
const patience = time.Second

// chunk is how many messages are taken at a time.
const chunk = 64

var errEnded = errors.New("this server is going away")

// Serve answers a request that has been read, at once or when there is news. An
// error means that nothing has been written and is to be answered in the form
// asked for ([WriteError]): a [*delivery.RequestError], a channel that cannot be
// read, or a log that is away when the client has no cursor to be sent back.
//
// While the broker drains, a poll that is held is answered at a moment of its own
// within the window, and its connection closed: clients that ask again at once
// are spread over the servers that stay.
//
// A client that has gone is not answered: Serve panics with
// [http.ErrAbortHandler].
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, req delivery.Request) error {
	params, err := readParams(req.Params)
	if err != nil {
		return err
	}
	// A read deadline of the server's would end a poll that is held.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})

	sub := h.o.Broker.Subscribe(req.Channels)
	sub.ExpireAt(req.Expires) // answers a poll that is held
	p := newPoll(params, req.Channels)
	err = p.run(r.Context(), sub, h.canPark(r))
	if errors.Is(err, errPark) {
		if h.park(w, r, p, sub) {
			return nil
		}
		err = p.run(r.Context(), sub, false)
	}
	defer sub.Close()
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	default:
		return err
	}
	if h.finish(w, p, sub) != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// finish answers a poll; an error means that the client does not take it.
func (h *Handler) finish(w http.ResponseWriter, p *poll, sub *delivery.Subscription) error {
	head, cursor := w.Header(), p.cursor()
	head.Set("Last-Event-ID", cursor)
	if p.over && !p.allEnded() {
		head.Set("Connection", "close") // the next poll is for another server
	}
	if err := h.write(w, p.form, p.parts(cursor, h.retry())); err != nil {
		return err
	}
	sub.Answered(p.messages)
	return nil
}

// run gathers until there is an answer; ctx is the client's. With park it returns
// errPark instead of waiting, to be called again without.
//
// A parked poll is woken by its channels and by one timer; it asks the log for
// nothing.
func (p *poll) run(ctx context.Context, sub *delivery.Subscription, park bool) error {
	if p.end.IsZero() {
		p.end = time.Now().Add(p.timeout)
	}
	var timer *time.Timer // for end, then for the end of gathering
	gathering := false
	for {
		p.next(sub)
		switch {
		case p.err != nil && !p.news:
			return p.err
		case p.full || p.err != nil || p.over:
			return p.settled()
		case p.more:
			continue
		case p.standing != delivery.Behind && p.positioned() && (!p.hold || p.news && p.wait == 0):
			return nil
		}
		if park {
			return errPark
		}
		if timer == nil {
			timer = time.NewTimer(time.Until(p.end))
			defer timer.Stop()
		}
		if p.news && !gathering && p.positioned() {
			gathering = true
			window := patience
			if p.wait > 0 {
				window = p.wait
			}
			timer.Reset(min(window, time.Until(p.end)))
		}
		select {
		case <-sub.Wake():
		case <-timer.C:
			p.late = true
			return p.settled()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settled is the error of a poll that must be answered now and has no position
// to answer with.
func (p *poll) settled() error {
	switch {
	case p.positioned():
		return nil
	case p.err != nil:
		return p.err
	case p.over:
		return &stream.Error{Op: "poll", Kind: stream.ErrUnavailable, Err: errEnded}
	}
	return &stream.Error{Op: "poll", Kind: stream.ErrUnavailable}
}

// retry is a random time from RetryMin to RetryMax, so that clients that were
// cut off together come back one by one.
func (h *Handler) retry() time.Duration {
	spread := (h.o.RetryMax - h.o.RetryMin).Milliseconds()
	return h.o.RetryMin + time.Duration(rand.Int64N(spread+1))*time.Millisecond
}
