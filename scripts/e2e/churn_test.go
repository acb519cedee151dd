//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"rejoin/stream/redislog/redistest"
)

// A thousand readers that live one second each and come back with their cursor,
// 100 messages a second for 20 seconds: nothing lost, nothing twice.
// Holds G18.
func TestThousandShortLives(t *testing.T) {
	redis := redistest.Start(t)
	s := serve(t, plain, "--redis-url", redis.URL(), "--retention-max-messages", "10000")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, "bench", "--url", s.url, "--json",
		"--subscribers", "1000", "--life", "1s", "--rate", "100", "--duration", "20s")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, stderr.String())
	}
	var r struct {
		OK                                         bool
		Published, Expected, Delivered, Reconnects int64
		Lost, Repeated, Violations                 int64
		Refused, Unknown, Dropped                  int64
		OutOfOrder                                 int64 `json:"out_of_order"`
		Gaps                                       int64 `json:"gaps_told"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if !r.OK || r.Published != 2000 || r.Expected != 2_000_000 || r.Delivered != r.Expected ||
		r.Lost+r.Repeated+r.OutOfOrder+r.Violations+r.Gaps+r.Refused+r.Unknown+r.Dropped != 0 {
		t.Errorf("want 2,000 published, 2,000,000 delivered and no fault:\n%s", out)
	}
	if r.Reconnects < 10_000 {
		t.Errorf("only %d reconnects in 20 s of lives of 1 s", r.Reconnects)
	}
}

// Three thousand readers close at once while 100 messages a second flow, three
// times over, on a server built with the race detector: nothing happens.
// Holds G48.
func TestThousandsLeaveAtOnce(t *testing.T) {
	const crowd, rounds, channel = 3000, 3, "crowd"
	redis := redistest.Start(t)
	s := serve(t, raced, "--redis-url", redis.URL())
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	p := &publisher{urls: []string{s.url}, channel: channel, n: 1 << 30, every: 10 * time.Millisecond}
	publishing.Go(func() {
		if err := p.run(ctx); ctx.Err() == nil {
			t.Error(err)
		}
	})
	defer func() {
		stop()
		publishing.Wait()
	}()

	for round := range rounds {
		readers := make([]net.Conn, crowd)
		for i := range readers {
			readers[i] = open(t, s.url, channel)
		}
		eventually(t, "all to be subscribed", func() bool { return s.metric("rejoin_subscribers") == crowd })
		flowed := p.acked.Load()
		eventually(t, "messages to flow to all", func() bool { return p.acked.Load() >= flowed+50 })
		for _, c := range readers[:10] { // they do get them
			if err := hasMessage(c); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		start := make(chan struct{})
		var leaving sync.WaitGroup
		for _, c := range readers {
			leaving.Go(func() {
				<-start
				_ = c.Close()
			})
		}
		close(start)
		leaving.Wait()
		eventually(t, "all to be gone", func() bool { return s.metric("rejoin_subscribers") == 0 })
	}
	flowed := p.acked.Load()
	eventually(t, "publishing to go on", func() bool { return p.acked.Load() >= flowed+10 })
	if n := p.failed.Load(); n != 0 {
		t.Errorf("%d publishes failed", n)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	if log := s.written(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
		t.Error("the server's log tells of a race or a panic")
	}
}

// open sends a reader's request and does not wait for the answer.
func open(t *testing.T, url, channel string) net.Conn {
	t.Helper()
	host := strings.TrimPrefix(url, "http://")
	c, err := net.DialTimeout("tcp", host, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "GET /v1/sse?channel=%s HTTP/1.1\r\nHost: %s\r\n\r\n", channel, host); err != nil {
		t.Fatal(err)
	}
	return c
}

// hasMessage reads until the first message.
func hasMessage(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	for e := range events(res.Body) {
		if e.name == "message" {
			return nil
		}
	}
	return errors.New("the stream ended before a message came")
}
