//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// publisher appends the numbers from 1 to n, in order, at a steady rate. Each is
// sent, with one idempotency key, to one server after the other until one has
// acknowledged it: then it is in the log, once.
type publisher struct {
	urls    []string
	channel string
	n       int
	every   time.Duration
	keys    string // what the idempotency keys begin with

	acked  atomic.Int64 // the newest number acknowledged
	failed atomic.Int64 // attempts without an answer, or answered 503 or 504
}

// run publishes all and returns nil, or why it cannot.
func (p *publisher) run(ctx context.Context) error {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	server := 0
	for n := 1; n <= p.n; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("published %d of %d: %w", n-1, p.n, ctx.Err())
		}
		status, err := p.publish(ctx, p.urls[server], n)
		switch {
		case status == http.StatusCreated:
			p.acked.Store(int64(n))
			n++
		case err != nil, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
			p.failed.Add(1)
			server = (server + 1) % len(p.urls)
		default:
			return fmt.Errorf("publishing %d was answered %d", n, status)
		}
	}
	return nil
}

func (p *publisher) publish(ctx context.Context, url string, n int) (status int, err error) {
	text := strconv.Itoa(n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/channels/"+p.channel+"/messages", strings.NewReader(text))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Idempotency-Key", p.keys+" "+text)
	res, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	_ = res.Body.Close()
	return res.StatusCode, nil
}
