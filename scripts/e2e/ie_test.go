//go:build linux

package e2e

import (
	"strconv"
	"testing"

	"rejoin/stream/redislog/redistest"
)

// A page as for Internet Explorer 8, of another origin, with none of what came
// later: by XMLHttpRequest, by XDomainRequest, which sees neither headers nor a
// status, and by JSONP each message comes once and in order, across a server that
// is killed; and an error is told in the body.
// Holds G105.
func TestPageOf2009(t *testing.T) {
	const channel, messages = "ie", 120
	redis := redistest.Start(t)
	args := []string{"--redis-url", redis.URL(), "--cors-origins", "*", "--retry-min", "100ms", "--retry-max", "300ms"}
	s, other := serve(t, plain, args...), serve(t, plain, args...)
	all := &readings{of: map[string]*reading{}}
	all.run(t, "node", "ie.mjs", s.url, channel)
	every := func(what string, holds func(r *reading) bool) {
		t.Helper()
		eventually(t, what, func() bool {
			all.mu.Lock()
			defer all.mu.Unlock()
			for _, name := range []string{"XMLHttpRequest", "XDomainRequest", "JSONP"} {
				if r := all.of[name]; r == nil || !holds(r) {
					return false
				}
			}
			return true
		})
	}
	every("three readers that have a position", func(r *reading) bool { return r.ready == 1 })
	for n := 1; n <= messages; n++ {
		put(t, other, channel, strconv.Itoa(n))
		switch n {
		case messages / 3:
			every("a third of the messages", func(r *reading) bool { return len(r.numbers) >= messages/3 })
			s.kill()
		case messages * 2 / 3:
			s.restart()
		}
	}
	every("all messages", func(r *reading) bool { return len(r.numbers) >= messages })
	put(t, other, channel, strconv.Itoa(messages+1)) // what came twice has come by now
	every("one more", func(r *reading) bool { return len(r.numbers) > messages })

	all.mu.Lock()
	defer all.mu.Unlock()
	for name, r := range all.of {
		if !ascends(r.numbers, 1, messages+1) || r.missed != nil {
			t.Errorf("%s got %v, and gaps %q", name, r.numbers, r.missed)
		}
		if r.refused != "400 bad_request" {
			t.Errorf("%s: a cursor that cannot be read was answered %q", name, r.refused)
		}
	}
	if len(all.of) != 3 {
		t.Errorf("%d readers spoke, want 3", len(all.of))
	}
}
