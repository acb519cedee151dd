//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"rejoin/stream/redislog/redistest"
)

// What a message costs Redis, in commands, does not grow with the readers of its
// channel, nor with channels that are read and silent.
// Holds G67.
func TestCommandsDoNotGrowWithReaders(t *testing.T) {
	const crowd, messages = 1000, 200
	redis := redistest.Start(t)
	s := serve(t, plain, "--redis-url", redis.URL())
	readers := 0
	// cost adds readers, waits until they are at rest, and counts the commands
	// of publishing.
	cost := func(name string, more int, channel func(i int) string) int {
		for i := range more {
			open(t, s.url, channel(i))
		}
		readers += more
		eventually(t, "all to be subscribed", func() bool { return s.metric("rejoin_subscribers") == float64(readers) })
		settled(t, redis)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		delivered := s.metric("rejoin_delivered_total")
		before := commands(t, redis)
		p := &publisher{urls: []string{s.url}, channel: "busy", n: messages, every: 10 * time.Millisecond, keys: name}
		if err := p.run(ctx); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all to be delivered", func() bool {
			return s.metric("rejoin_delivered_total") >= delivered+messages
		})
		n := commands(t, redis) - before
		t.Logf("%s: %d commands for %d messages", name, n, messages)
		return n
	}
	one := cost("one reader", 1, func(int) string { return "busy" })
	many := cost("a thousand readers", crowd, func(int) string { return "busy" })
	idle := cost("a thousand silent channels", crowd, func(i int) string { return fmt.Sprint("silent.", i) })
	for name, n := range map[string]int{"readers": many, "silent channels": idle} {
		if n > one+one/5 {
			t.Errorf("with a thousand %s %d commands, with one reader %d", name, n, one)
		}
	}
}

// commands is how many Redis has processed in all. The question itself counts
// the same each time.
func commands(t *testing.T, redis *redistest.Server) int {
	t.Helper()
	_, rest, ok := strings.Cut(fmt.Sprint(redis.Do("INFO", "stats")), "total_commands_processed:")
	number, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		t.Fatalf("INFO stats: %v", err)
	}
	return n
}

// settled waits until Redis has only the few commands a second of a server at
// rest.
func settled(t *testing.T, redis *redistest.Server) {
	t.Helper()
	last, since := commands(t, redis), time.Now()
	eventually(t, "Redis to be at rest", func() bool {
		if time.Since(since) < 500*time.Millisecond {
			return false
		}
		before := last
		last, since = commands(t, redis), time.Now()
		return last-before < 20
	})
}

// An id is a Redis stream id: whoever looks into Redis finds the messages under
// their ids, and ranges over them.
// Holds G6.
func TestIDsAreThoseOfRedis(t *testing.T) {
	redis := redistest.Start(t)
	s := serve(t, plain, "--redis-url", redis.URL())
	reader := watch(t, "reader", s.url, "ids", "")
	reader.expect("ready")
	for _, text := range []string{"one", "two", "three"} {
		put(t, s, "ids", text)
	}
	reader.expect("ready", "one", "two", "three")
	second := reader.ids()[2] // behind ready's and the first message's
	keys, _ := redis.Do("KEYS", "rejoin:{*}:c:ids").([]any)
	if len(keys) != 1 {
		t.Fatalf("keys of the channel: %v", keys)
	}
	entries, _ := redis.Do("XRANGE", keys[0], second, "+").([]any)
	if text := fmt.Sprint(entries); len(entries) != 2 || !strings.Contains(text, "two") || !strings.Contains(text, "three") {
		t.Errorf("from %s on Redis has %v, want two and three", second, entries)
	}
}
