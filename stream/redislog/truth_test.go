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
	t.Parallel() // it waits most of its time
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

// The promise of a session under everything that can happen to a journal and a
// connection: what is appended while it lives is announced, or it is over soon.
func TestAnnouncedOrOver(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := startServer(t)
	proxy := redistest.NewProxy(t, s.Addr)
	writer := open(t, redislog.Options{URL: s.URL()})
	hearer := open(t, redislog.Options{URL: proxy.URL()})
	publish(t, writer, "c0", "x")
	old := s.Save()

	type appended struct {
		name       string // channel and id
		start, end time.Time
	}
	var (
		wg      sync.WaitGroup
		stop    = make(chan struct{})
		appends []appended // the writer's until it has stopped
	)
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			channel, start := fmt.Sprint("c", i%10), time.Now()
			if a, err := writer.Append(t.Context(), stream.Message{Channel: channel, Payload: "x"}); err == nil {
				appends = append(appends, appended{channel + " " + a.ID.String(), start, time.Now()})
			}
		}
	})

	type session struct {
		start, end time.Time
		heard      map[string]bool
		why        error
	}
	var sessions []session // the hearer's until it has stopped
	hear := func(sess stream.Session) {
		defer sess.Close()
		one := session{start: time.Now(), heard: map[string]bool{}}
		for {
			marks, err := sess.Wait(t.Context())
			if err != nil {
				one.end, one.why = time.Now(), err
				sessions = append(sessions, one)
				return
			}
			for _, m := range marks {
				one.heard[m.Channel+" "+m.ID.String()] = true
			}
		}
	}
	wg.Go(func() {
		for {
			sess, err := hearer.Listen(t.Context(), 0)
			switch {
			case err == nil:
				hear(sess)
			case errors.Is(err, stream.ErrClosed):
				return
			default:
				<-time.After(50 * time.Millisecond)
			}
		}
	})

	const noticed = 2200 * time.Millisecond // after which a session must be over
	for _, fault := range []func(){
		func() { s.Do("DEL", writer.JournalKey("c1"), writer.JournalEndKey("c1")) },
		func() { s.Do("FLUSHALL") },
		func() { s.Do("DEL", writer.JournalKey("c2")); s.Do("SET", writer.JournalEndKey("c2"), "5-5") },
		func() { s.Freeze(); <-time.After(1500 * time.Millisecond); s.Thaw() },
		proxy.CloseConns,
		func() { proxy.Mute(true); <-time.After(1500 * time.Millisecond); proxy.CloseConns(); proxy.Mute(false) },
		s.Restart,
		func() { s.RestartFrom(old) },
		func() { s.Do("XTRIM", writer.JournalKey("c3"), "MAXLEN", 0) },
	} {
		fault()
		<-time.After(noticed)
	}
	close(stop)
	<-time.After(noticed)
	if err := hearer.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if len(sessions) < 6 || len(appends) < 500 {
		t.Fatalf("%d sessions, %d appends", len(sessions), len(appends))
	}
	for _, one := range sessions {
		missed, first := 0, ""
		for _, a := range appends {
			if a.start.After(one.start) && a.end.Before(one.end.Add(-noticed)) && !one.heard[a.name] {
				missed++
				first = a.name
			}
		}
		if missed > 0 {
			t.Errorf("a session that lived %v and ended by %q heard %d and missed %d, such as %s",
				one.end.Sub(one.start), one.why, len(one.heard), missed, first)
		}
	}
	t.Logf("%d sessions, %d appends", len(sessions), len(appends))
}
