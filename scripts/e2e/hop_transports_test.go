//go:build linux

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"rejoin/stream/redislog/redistest"
)

// Clients hop between two servers and three transports at each reconnect, with
// the one cursor of whatever they saw last: every message comes exactly once, in
// order. A client makes the cursor itself, and reads the servers' ones.
// Holds G103.
func TestHopBetweenServersAndTransports(t *testing.T) {
	for name, channels := range map[string][]string{
		"one channel":    {"hop"},
		"three channels": {"hop.a", "hop.b", "hop:c"},
	} {
		t.Run(name, func(t *testing.T) { hopTransports(t, channels) })
	}
}

func hopTransports(t *testing.T, channels []string) {
	const clients, messages = 24, 3000
	each := messages / len(channels)
	redis := redistest.Start(t)
	retention := []string{"--redis-url", redis.URL(), "--retention-max-messages", "100000"}
	urls := []string{serve(t, plain, retention...).url, serve(t, plain, retention...).url}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()

	crowd := make([]*traveller, clients)
	visits := make([][6]int, clients) // by server and transport
	var travelling sync.WaitGroup
	for i := range crowd {
		c := newTraveller(fmt.Sprintf("client %d", i), channels...)
		crowd[i] = c
		travelling.Go(func() {
			for n := i; ctx.Err() == nil && !c.has(each); n++ {
				stay, leave := context.WithCancel(ctx)
				time.AfterFunc(10*time.Millisecond+rand.N(200*time.Millisecond), func() {
					select {
					case <-c.placed: // the first ready gives it a position
					case <-ctx.Done():
					}
					leave()
				})
				_ = transports[n%3](stay, c, urls[n%2]) // how it ends is the point
				leave()
				visits[i][n%6]++
			}
		})
	}
	for _, c := range crowd {
		select {
		case <-c.placed:
		case <-ctx.Done():
			t.Fatalf("%s got no position", c.name)
		}
	}

	var publishing sync.WaitGroup
	for _, channel := range channels {
		publishing.Go(func() {
			p := &publisher{urls: urls, channel: channel, n: each, every: time.Duration(len(channels)) * 2 * time.Millisecond}
			if err := p.run(ctx); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	publishing.Wait()
	travelling.Wait()
	least := messages
	for i, c := range crowd {
		if !c.has(each) {
			t.Errorf("%s has %v, want %d of each channel", c.name, c.last, each)
		}
		for _, fault := range c.faults {
			t.Error(fault)
		}
		total := 0
		for way, n := range visits[i] {
			if total += n; n == 0 {
				t.Errorf("%s never came to server %d by transport %d", c.name, way%2, way%3)
			}
		}
		least = min(least, total)
	}
	if least < 21 {
		t.Errorf("a client made only %d hops: too few to show anything", least-1)
	}
	t.Logf("%d clients, %d messages on %d channels, at least %d hops each", clients, messages, len(channels), least-1)
}
