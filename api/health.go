package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"rejoin/delivery"
	"rejoin/stream"
)

// healthz says that the process lives.
func healthz(w http.ResponseWriter, _ *http.Request) { writeOK(w) }

func writeOK(w http.ResponseWriter) {
	head := w.Header()
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n"))
}

// readyz says whether this server takes connections. The log may be away: a
// balancer that dropped every server for it would cut off readers who wait out
// the outage here. With log=1 it says whether a message can pass now.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) error {
	if a.o.Ready != nil && !a.o.Ready() {
		return &problem{
			Status: http.StatusServiceUnavailable, Code: codeNotReady,
			Detail: "this server is starting or draining", retryAfter: comeBack,
		}
	}
	params := delivery.ParseParams(r.URL.RawQuery)
	if err := params.Check("log"); err != nil {
		return err
	}
	switch text, ok := params.Get("log"); {
	case ok && text == "1":
		if err := a.probe.check(); err != nil {
			return &problem{
				Status: http.StatusServiceUnavailable, Code: codeLogUnavailable,
				Detail: "no message can pass now", retryAfter: comeBack, cause: err,
			}
		}
	case ok && text != "0":
		return badRequest("log: want 1 or 0")
	}
	writeOK(w)
	return nil
}

// probe proves that a message can pass: it publishes one, and waits until a
// reader of this server has it. Publishing alone would prove too little: a
// server can append and be deaf.
type probe struct {
	log    stream.Log
	broker *delivery.Broker

	mu   sync.Mutex // guards the following; held while a probe runs
	done time.Time  // when the last probe ended
	err  error      // what it found
}

const (
	probeChannel = "rejoin.readyz"
	probeEvery   = time.Second     // an answer is good for so long
	probeTimeout = 2 * time.Second // for the append, and for the message to come
)

// check gives the answer of the last probe, if that is fresh, or makes one.
// Callers that come meanwhile wait for it and share it.
func (p *probe) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done.IsZero() || time.Since(p.done) >= probeEvery {
		p.err = p.pass()
		p.done = time.Now()
	}
	return p.err
}

// pass is the way of a message: a reader stands at the end of the channel, then
// the message is published, then it comes.
func (p *probe) pass() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	sub := p.broker.Subscribe([]delivery.Channel{{Name: probeChannel}})
	defer sub.Close()
	var sent stream.ID
	for {
		batch := sub.Next(1 << 10)
		for _, it := range batch.Items {
			switch {
			case it.Kind == delivery.Ready:
				done, err := p.log.Append(ctx, stream.Message{Channel: probeChannel})
				if err != nil {
					return err
				}
				sent = done.ID
			case it.Kind == delivery.Message && it.Record.ID == sent:
				return nil
			case it.Kind == delivery.Error:
				return it.Err
			}
		}
		if batch.More {
			continue
		}
		if batch.Done {
			return fmt.Errorf("the subscription ended before the message came: %w", stream.ErrClosed)
		}
		select {
		case <-sub.Wake():
		case <-ctx.Done():
			if sent.IsZero() {
				return fmt.Errorf("the end of the log could not be read: %w", stream.ErrUnavailable)
			}
			return fmt.Errorf("message %v was appended but did not come here: %w", sent, stream.ErrUnavailable)
		}
	}
}
