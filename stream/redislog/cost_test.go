package redislog_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/redislog/redistest"
)

// calls is how often each command was called since the last CONFIG RESETSTAT,
// those of tests left out, and what they cost Redis a call in µs.
func calls(s *redistest.Server) (n map[string]int, micros map[string]float64) {
	n, micros = map[string]int{}, map[string]float64{}
	for line := range strings.SplitSeq(s.Do("INFO", "commandstats").(string), "\r\n") {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if !ok || name == "info" || name == "config|resetstat" || name == "hello" || name == "ping" {
			continue
		}
		for field := range strings.SplitSeq(rest, ",") {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "calls":
				n[name], _ = strconv.Atoi(value)
			case "usec_per_call":
				micros[name], _ = strconv.ParseFloat(value, 64)
			}
		}
	}
	return n, micros
}

func sum(n map[string]int) (all int) {
	for _, v := range n {
		all += v
	}
	return all
}

// What a read costs: a look two commands, one of a lost place three, following
// one, however many there are in one call.
func TestCommandsOfReads(t *testing.T) {
	s, logs := start(t, 2)
	const channels = 1000
	ids := map[string][]stream.ID{}
	for i := range channels {
		c := fmt.Sprint("c", i)
		for j := range 3 {
			ids[c] = append(ids[c], publish(t, logs[0], c, fmt.Sprint(j)))
		}
	}
	queries := func(at func(ids []stream.ID) stream.ID, follow bool) (qs []stream.Query) {
		for c, ids := range ids {
			qs = append(qs, stream.Query{Channel: c, After: at(ids), Limit: 100, Follow: follow})
		}
		return qs
	}
	second := func(ids []stream.ID) stream.ID { return ids[1] }
	head := func(ids []stream.ID) stream.ID { return ids[2] }
	lost := func(ids []stream.ID) stream.ID { return stream.ID{MS: ids[1].MS, N: 1 << 40} }
	for _, tt := range []struct {
		name    string
		queries []stream.Query
		want    int // commands a channel
	}{
		{"a look at a channel never heard of", queries(second, false), 2},
		{"a look", queries(second, false), 2},
		{"a look at the head", queries(head, false), 2},
		{"following", queries(second, true), 1},
		{"following with nothing new", queries(head, true), 1},
		{"a look from a place that is lost", queries(lost, false), 4},
	} {
		sess := listen(t, logs[1])
		s.Do("CONFIG", "RESETSTAT")
		pages, err := sess.Read(t.Context(), tt.queries)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := calls(s)
		sess.Close()
		for _, p := range pages {
			if p.Err != nil {
				t.Fatal(p.Err)
			}
		}
		got := n["get"] + n["xrange"] + n["xrevrange"] + n["xinfo|stream"]
		if got != tt.want*channels {
			t.Errorf("%s: %v, want %d a channel", tt.name, n, tt.want)
		}
	}
}

// A session at rest asks the same few things whatever the number of channels.
func TestCommandsAtRest(t *testing.T) {
	s, logs := start(t, 1)
	for i := range 500 {
		publish(t, logs[0], fmt.Sprint("c", i), "x")
	}
	listen(t, logs[0])
	s.Do("CONFIG", "RESETSTAT")
	<-time.After(time.Second)
	n, _ := calls(s)
	if all := sum(n); all > 3*6+2 {
		t.Fatalf("%d commands a second at rest: %v", all, n)
	}
}

// Closing gives every connection back.
func TestConnectionsAreClosed(t *testing.T) {
	s, logs := start(t, 1)
	sess := listen(t, logs[0])
	publish(t, logs[0], "a", "x")
	sess.Close()
	if err := logs[0].Close(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; {
		n := strings.Count(s.Do("CLIENT", "LIST").(string), "id=")
		if n == 1 {
			return
		}
		if time.Since(start) > 2*time.Second {
			t.Fatalf("%d connections are left", n-1)
		}
	}
}

// BenchmarkAppend: wall time of an append with 32 at a time, and what one costs
// Redis (redis-µs/op).
func BenchmarkAppend(b *testing.B) {
	for _, bm := range []struct {
		name        string
		channels    int
		bytes       int
		idempotency bool
	}{
		{"one-channel-500B", 1, 500, false},
		{"1000-channels-500B", 1000, 500, false},
		{"1000-channels-500B-idempotent", 1000, 500, true},
		{"1000-channels-64KiB", 1000, 64 << 10, false},
	} {
		b.Run(bm.name, func(b *testing.B) {
			s, logs := start(b, 1)
			payload := strings.Repeat("x", bm.bytes)
			i := make(chan int, 1)
			i <- 0
			s.Do("CONFIG", "RESETSTAT")
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := <-i
					i <- n + 1
					m := stream.Message{Channel: fmt.Sprint("c", n%bm.channels), Payload: payload}
					if bm.idempotency {
						m.IdempotencyKey = fmt.Sprint(n)
					}
					if _, err := logs[0].Append(b.Context(), m); err != nil {
						b.Error(err)
					}
				}
			})
			b.StopTimer()
			_, micros := calls(s)
			b.ReportMetric(micros["evalsha"], "redis-µs/op")
		})
	}
}

// BenchmarkLooks: one call with a look at each of 10,000 channels.
func BenchmarkLooks(b *testing.B) {
	_, logs := start(b, 1)
	var queries []stream.Query
	for i := range 10_000 {
		c := fmt.Sprint("c", i)
		id := publish(b, logs[0], c, strings.Repeat("x", 500))
		queries = append(queries, stream.Query{Channel: c, After: id, Limit: 100})
	}
	sess := listen(b, logs[0])
	for b.Loop() {
		if _, err := sess.Read(b.Context(), queries); err != nil {
			b.Fatal(err)
		}
	}
}
