//go:build linux

package e2e

import (
	"context"
	"testing"
	"time"

	"rejoin/stream/redislog/redistest"
)

// outage is a server on a Redis that keeps all it acknowledges, two readers that
// are not ours, and a publisher.
type outage struct {
	redis         *redistest.Server
	server        *server
	curl, browser *account
	publisher     *publisher
	published     chan error
}

const outageMessages = 300

func newOutage(t *testing.T, channel string) *outage {
	o := &outage{
		redis:   redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always"),
		curl:    newAccount("curl -N"),
		browser: newAccount("Chromium's EventSource"),
	}
	o.server = serve(t, plain, "--redis-url", o.redis.URL(), "--cors-origins", "*",
		"--retry-min", "100ms", "--retry-max", "300ms")
	curl(t, o.server.url+"/v1/sse?channel="+channel, o.curl.take)
	chromium(t, o.server.url+"/v1/sse?channel="+channel, o.browser.take)
	for _, a := range []*account{o.curl, o.browser} {
		a.waitTold(t, "rejoin.ready", 1, patience)
		a.waitTold(t, "state live", 1, patience)
	}
	o.publisher = &publisher{urls: []string{o.server.url}, channel: channel, n: outageMessages, every: 10 * time.Millisecond}
	o.published = make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.published <- o.publisher.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return o
}

func (o *outage) readers() []*account { return []*account{o.curl, o.browser} }

// settle waits for the end and checks that nobody missed anything.
func (o *outage) settle(t *testing.T) {
	t.Helper()
	if err := <-o.published; err != nil {
		t.Fatal(err)
	}
	for _, a := range o.readers() {
		a.waitFor(t, outageMessages)
		a.settle(t, outageMessages)
	}
	if o.publisher.failed.Load() == 0 {
		t.Error("no publish failed: the outage was none")
	}
}

// A server dies by SIGKILL and another takes its address: readers come back by
// themselves and have missed nothing.
// Holds G45.
func TestServerKilledAndRestarted(t *testing.T) {
	o := newOutage(t, "kill-server")
	eventually(t, "a third of the messages", func() bool { return o.publisher.acked.Load() >= outageMessages/3 })
	o.server.kill()
	for _, a := range o.readers() { // both have lost their line before it is back
		opens := a.count("rejoin.ready")
		if opens != 1 {
			t.Errorf("%s: connected %d times before the server died", a.name, opens)
		}
	}
	eventually(t, "a publish to fail", func() bool { return o.publisher.failed.Load() > 0 })
	o.browser.waitTold(t, "error", 1, patience)
	o.server.restart()
	o.settle(t)
	for _, a := range o.readers() {
		if n := a.count("rejoin.ready"); n != 2 {
			t.Errorf("%s: connected %d times, want 2", a.name, n)
		}
	}
}

// Redis dies by SIGKILL and comes back with all it acknowledged: readers stay
// connected, are told that the flow stands still and that it goes on, and have
// missed nothing.
// Holds G11, G45, G50, G58, G60.
func TestRedisKilledAndRestarted(t *testing.T) {
	o := newOutage(t, "kill-redis")
	eventually(t, "a third of the messages", func() bool { return o.publisher.acked.Load() >= outageMessages/3 })
	o.redis.Kill()
	killed := time.Now()
	for _, a := range o.readers() {
		a.waitTold(t, "state stale", 1, 1500*time.Millisecond-time.Since(killed))
	}
	eventually(t, "a publish to fail", func() bool { return o.publisher.failed.Load() > 0 })
	before := o.curl.newest()
	o.redis.Restart()
	answered := time.Now()
	for _, a := range o.readers() {
		a.waitTold(t, "state live", 2, time.Second-time.Since(answered))
	}
	o.curl.waitFor(t, before+1)
	if silence := time.Since(answered); silence > time.Second {
		t.Errorf("the first message came %v after Redis answered again, want less than a second", silence)
	}
	o.settle(t)
	for _, a := range o.readers() {
		if n := a.count("rejoin.ready"); n != 1 {
			t.Errorf("%s: connected %d times, want to stay connected", a.name, n)
		}
		if stale, live := a.count("state stale"), a.count("state live"); stale != 1 || live != 2 {
			t.Errorf("%s: told stale %d times and live %d times, want 1 and 2", a.name, stale, live)
		}
	}
	if n := o.browser.count("error"); n != 0 {
		t.Errorf("the browser's line broke %d times", n)
	}
}
