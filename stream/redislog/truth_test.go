package redislog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/redislog"
	"rejoin/stream/redislog/redistest"
)

// Writers append while connections are cut at any moment, answers are lost or
// swallowed, and Redis is killed and restarted. What each append was answered is
// the truth: acknowledged means once, unavailable means never, unknown means at
// most once, and repeated with its key until acknowledged exactly once.
func TestTruthUnderFaults(t *testing.T) {
	s := startServer(t, "--appendonly", "yes", "--appendfsync", "no")
	proxy := redistest.NewProxy(t, s.Addr)
	retention := func(string) stream.Retention { return stream.Retention{MaxMessages: 1_000_000} }
	l := open(t, redislog.Options{URL: proxy.URL(), Timeout: 500 * time.Millisecond, Retention: retention})

	const writers = 8
	type outcome struct{ ok, never, unknown, retried map[string]bool }
	outcomes := make([]outcome, writers)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		o := outcome{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
		outcomes[w] = o
		wg.Go(func() {
			channel := fmt.Sprint("c", w)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				m := stream.Message{Channel: channel, Payload: fmt.Sprint(w, "-", i)}
				if w%2 == 1 {
					m.IdempotencyKey = m.Payload
				}
				_, err := l.Append(t.Context(), m)
				for err != nil && m.IdempotencyKey != "" {
					o.retried[m.Payload] = true
					_, err = l.Append(t.Context(), m)
				}
				switch {
				case err == nil:
					o.ok[m.Payload] = true
				case errors.Is(err, stream.ErrUnavailable):
					o.never[m.Payload] = true
				case errors.Is(err, stream.ErrUnknownOutcome):
					o.unknown[m.Payload] = true
				default:
					t.Errorf("append: %v", err)
					return
				}
			}
		})
	}

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := range 200 {
		<-tick.C
		switch rand.IntN(6) {
		case 0, 1:
			proxy.CloseConns()
		case 2:
			proxy.CutReply("evalsha", 1+rand.IntN(3))
		case 3:
			proxy.CutReply([]string{"hello", "ping"}[rand.IntN(2)], 2)
			proxy.CloseConns()
		case 4:
			proxy.Mute(true)
			<-tick.C
			proxy.Mute(false)
			proxy.CloseConns() // the protocol is out of step behind swallowed answers
		case 5:
			if n%10 == 0 {
				s.Restart()
			}
		}
	}
	proxy.CutReply("", 0)
	close(stop)
	wg.Wait()

	direct := open(t, redislog.Options{URL: s.URL(), Retention: retention})
	var ok, never, unknown, retried int
	for w, o := range outcomes {
		times := map[string]int{}
		for after := stream.Earliest; ; {
			p := read(t, direct, stream.Query{Channel: fmt.Sprint("c", w), After: after, Limit: 1000})
			for _, e := range p.Entries {
				times[e.Payload]++
				if !after.IsZero() && !stream.Follows(after, &e) {
					t.Fatalf("the chain breaks at %+v behind %v", e, after)
				}
				after = e.ID
			}
			if !p.More {
				break
			}
		}
		for payload, n := range times {
			if n > 1 {
				t.Errorf("%s is there %d times (retried: %v)", payload, n, o.retried[payload])
			}
			if o.never[payload] {
				t.Errorf("%s was said not to be appended", payload)
			}
		}
		for payload := range o.ok {
			if times[payload] != 1 {
				t.Errorf("%s was acknowledged and is there %d times", payload, times[payload])
			}
		}
		ok, never, unknown, retried = ok+len(o.ok), never+len(o.never), unknown+len(o.unknown), retried+len(o.retried)
	}
	t.Logf("%d acknowledged, %d unavailable, %d unknown, %d retried", ok, never, unknown, retried)
	if ok == 0 || never == 0 || unknown == 0 || retried == 0 {
		t.Error("the faults did not bring every outcome")
	}
}
