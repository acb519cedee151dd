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

// Readers hop between two servers on one Redis at each reconnect, with the
// cursor of whatever they saw last: every message comes exactly once, in order.
// Holds G19.
func TestHopBetweenTwoServers(t *testing.T) { hop(t, false) }

// The same, with one of the servers killed half way: readers and the publisher
// go on at the other.
// Holds G19.
func TestHopWhenOneServerIsKilled(t *testing.T) { hop(t, true) }

func hop(t *testing.T, killOne bool) {
	const readers, messages, channel = 24, 3000, "hop"
	redis := redistest.Start(t)
	retention := []string{"--redis-url", redis.URL(), "--retention-max-messages", "100000"}
	servers := []*server{serve(t, plain, retention...), serve(t, plain, retention...)}
	urls := []string{servers[0].url, servers[1].url}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()

	accounts := make([]*account, readers)
	visits := make([]int, readers)
	var crowd sync.WaitGroup
	for i := range accounts {
		a := newAccount(fmt.Sprintf("reader %d", i))
		accounts[i] = a
		crowd.Go(func() {
			for ctx.Err() == nil && a.newest() < messages {
				life := 20*time.Millisecond + rand.N(300*time.Millisecond)
				if a.position() == "" {
					life = patience // the first ready gives it a position
				}
				stay, leave := context.WithTimeout(ctx, life)
				if a.position() == "" {
					go func() {
						_ = a.wait(stay, func() bool { return a.cursor != "" })
						leave()
					}()
				}
				_ = a.visit(stay, urls[(i+visits[i])%2], channel) // how it ends is the point
				leave()
				visits[i]++
			}
		})
	}
	for _, a := range accounts {
		a.waitTold(t, "rejoin.ready", 1, patience)
	}

	p := &publisher{urls: urls, channel: channel, n: messages, every: 2 * time.Millisecond}
	published := make(chan error, 1)
	go func() { published <- p.run(ctx) }()
	if killOne {
		eventually(t, "half of the messages", func() bool { return p.acked.Load() >= messages/2 })
		servers[0].kill()
	}
	if err := <-published; err != nil {
		t.Error(err)
		cancel()
	}
	for _, a := range accounts {
		if ctx.Err() == nil {
			a.waitFor(t, messages)
		}
	}
	crowd.Wait()
	least := visits[0]
	for i, a := range accounts {
		a.settle(t, messages)
		least = min(least, visits[i])
	}
	if least < 20 {
		t.Errorf("a reader had only %d visits: too few to show anything", least)
	}
	if failed := p.failed.Load(); killOne != (failed > 0) {
		t.Errorf("%d publishes failed, with a server killed: %v", failed, killOne)
	}
	t.Logf("%d readers, %d messages, at least %d visits each", readers, messages, least)
}
