package redislog_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/redislog"
	"rejoin/stream/redislog/redistest"
)

// waitOver waits until the session says it is over and returns why.
func waitOver(t *testing.T, s stream.Session, d time.Duration) (error, time.Duration) {
	t.Helper()
	start := time.Now()
	for {
		_, err := wait(t, s, d-time.Since(start))
		took := time.Since(start)
		if err != nil {
			if took >= d {
				t.Fatalf("still lives after %v", d)
			}
			return err, took
		}
	}
}

func TestSessionHearsEveryone(t *testing.T) {
	_, logs := start(t, 2)
	s := listen(t, logs[1])
	const writers, each = 16, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := logs[w%2].Append(t.Context(), stream.Message{Channel: fmt.Sprint("c", w), Payload: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	got := map[string][]uint64{}
	for n := 0; n < writers*each; {
		marks, err := wait(t, s, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range marks {
			got[m.Channel] = append(got[m.Channel], m.ID.N)
			if m.Bytes < stream.EntryOverhead+1 || m.Deleted {
				t.Fatalf("mark %+v", m)
			}
		}
		n += len(marks)
	}
	wg.Wait()
	for c, ns := range got {
		for i, n := range ns {
			if n != uint64(i+1) {
				t.Fatalf("%s was announced as %v", c, ns)
			}
		}
	}
	if k := logs[1].Known("c0"); k.N != each {
		t.Fatalf("known of c0 is %v", k)
	}
	if err := logs[0].Delete(t.Context(), "c0"); err != nil {
		t.Fatal(err)
	}
	marks, err := wait(t, s, 5*time.Second)
	if err != nil || len(marks) != 1 || !marks[0].Deleted || marks[0].Channel != "c0" || marks[0].ID.N != each {
		t.Fatalf("the delete: %+v %v", marks, err)
	}
}

func TestSessionReads(t *testing.T) {
	s, logs := start(t, 1)
	sess := listen(t, logs[0])
	var queries []stream.Query
	for i := range 2500 {
		c := fmt.Sprint("c", i)
		publish(t, logs[0], c, c)
		queries = append(queries, stream.Query{Channel: c, Limit: 10})
	}
	s.Do("DEL", logs[0].StreamKey("c7"))
	s.Do("SET", logs[0].StreamKey("c7"), "x")
	pages, err := sess.Read(t.Context(), queries)
	if err != nil || len(pages) != len(queries) {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for i, p := range pages {
		if i == 7 {
			if !errors.Is(p.Err, stream.ErrBroken) {
				t.Fatalf("a channel of the wrong type: %+v", p)
			}
			continue
		}
		if p.Err != nil || p.Channel != queries[i].Channel || len(p.Entries) != 1 || p.Entries[0].Payload != p.Channel {
			t.Fatalf("page %d: %+v", i, p)
		}
	}
	if time.Since(sess.Heard()) > time.Second {
		t.Fatal("heard long ago")
	}
}

// A frozen Redis is told within 1.25 s, and calls do not hang on it.
// Holds G50, G59.
func TestFrozen(t *testing.T) {
	s, logs := start(t, 1)
	sess := listen(t, logs[0])
	publish(t, logs[0], "a", "1")
	if _, err := wait(t, sess, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	s.Freeze()
	err, took := waitOver(t, sess, 5*time.Second)
	if !errors.Is(err, stream.ErrUnavailable) || took > 1400*time.Millisecond {
		t.Fatalf("over after %v: %v", took, err)
	}
	start := time.Now()
	if _, err := logs[0].Listen(t.Context(), 0); !errors.Is(err, stream.ErrUnavailable) || time.Since(start) > 1500*time.Millisecond {
		t.Fatalf("listening to it took %v: %v", time.Since(start), err)
	}
	start = time.Now()
	_, err = logs[0].Append(t.Context(), stream.Message{Channel: "a", IdempotencyKey: "k"})
	if !errors.Is(err, stream.ErrUnknownOutcome) || time.Since(start) > 2500*time.Millisecond {
		t.Fatalf("appending to it took %v: %v", time.Since(start), err)
	}
	s.Thaw()
	again := listen(t, logs[0])
	publish(t, logs[0], "b", "2")
	for {
		marks, err := wait(t, again, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if marks[len(marks)-1].Channel == "b" {
			return
		}
	}
}

func TestKilledAndRestarted(t *testing.T) {
	s, logs := start(t, 1, "--appendonly", "yes", "--appendfsync", "always")
	l := logs[0]
	sess := listen(t, l)
	a := publish(t, l, "a", "1")
	s.Kill()
	if err, took := waitOver(t, sess, 5*time.Second); !errors.Is(err, stream.ErrUnavailable) || took > time.Second {
		t.Fatalf("over after %v: %v", took, err)
	}
	for range 300 { // more than the pool has room for
		if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrUnavailable) {
			t.Fatalf("append to nobody: %v", err)
		}
	}
	start := time.Now()
	if _, err := l.Listen(t.Context(), 0); !errors.Is(err, stream.ErrUnavailable) || time.Since(start) > 200*time.Millisecond {
		t.Fatalf("listening to nobody took %v: %v", time.Since(start), err)
	}
	s.Restart()
	start = time.Now()
	listen(t, l)
	for {
		got, err := l.Append(t.Context(), stream.Message{Channel: "a", Payload: "2"})
		if err == nil {
			if got.ID.N != 2 || time.Since(start) > 300*time.Millisecond {
				t.Fatalf("behind %v comes %v, after %v", a, got.ID, time.Since(start))
			}
			return
		}
		if time.Since(start) > 2*time.Second {
			t.Fatalf("still %v", err)
		}
	}
}

// Holds G62.
func TestOpenWhileAway(t *testing.T) {
	s := startServer(t)
	s.Kill()
	l := open(t, redislog.Options{URL: s.URL(), Partitions: 8})
	if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrUnavailable) {
		t.Fatal(err)
	}
	s.Restart()
	other := open(t, redislog.Options{URL: s.URL()}) // stores 32
	publish(t, other, "a", "1")
	deadline := time.Now().Add(2 * time.Second)
	for {
		_, err := l.Append(t.Context(), stream.Message{Channel: "a"})
		if errors.Is(err, stream.ErrBroken) {
			break
		}
		if err == nil || time.Now().After(deadline) {
			t.Fatalf("8 partitions where 32 are stored: %v", err)
		}
	}
	if _, err := l.Listen(t.Context(), 0); !errors.Is(err, stream.ErrBroken) {
		t.Fatalf("listen: %v", err)
	}
}

// Each way a journal can be lost or go back under an open connection.
// Holds G61.
func TestJournalLost(t *testing.T) {
	for name, hurt := range map[string]func(s *redistest.Server, l *redislog.Log){
		"gone, nothing said since": func(s *redistest.Server, l *redislog.Log) {
			s.Do("DEL", l.JournalKey("a"), l.JournalEndKey("a"))
		},
		"gone and begun anew": func(s *redistest.Server, l *redislog.Log) {
			s.Do("DEL", l.JournalKey("a"), l.JournalEndKey("a"))
			publish(t, l, "a", "after")
		},
		"everything gone": func(s *redistest.Server, l *redislog.Log) {
			s.Do("FLUSHALL")
		},
		"rolled back": func(s *redistest.Server, l *redislog.Log) {
			s.Do("DEL", l.JournalKey("a"))
			s.Do("SET", l.JournalEndKey("a"), "1-1")
		},
		"an end that nobody announced": func(s *redistest.Server, l *redislog.Log) {
			s.Do("SET", l.JournalEndKey("a"), "99999999999999-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, logs := start(t, 1)
			l := logs[0]
			sess := listen(t, l)
			publish(t, l, "a", "before")
			if _, err := wait(t, sess, 5*time.Second); err != nil {
				t.Fatal(err)
			}
			hurt(s, l)
			err, took := waitOver(t, sess, 5*time.Second)
			if !errors.Is(err, stream.ErrUnavailable) || took > 1500*time.Millisecond {
				t.Fatalf("over after %v: %v", took, err)
			}
			// The next one lives.
			next := listen(t, l)
			if name == "an end that nobody announced" {
				return
			}
			publish(t, l, "a", "again")
			if _, err := wait(t, next, 5*time.Second); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A journal whose end was evicted goes on, and its session with it.
// Holds G61.
func TestJournalEndLost(t *testing.T) {
	s, logs := start(t, 1)
	l := logs[0]
	publish(t, l, "a", "1")
	s.Do("DEL", l.JournalEndKey("a"))
	sess := listen(t, l)
	if _, err := wait(t, sess, 800*time.Millisecond); time.Since(sess.Heard()) > 500*time.Millisecond {
		t.Fatalf("the session is over: %v", err)
	}
	publish(t, l, "a", "2")
	if marks, err := wait(t, sess, 5*time.Second); err != nil || marks[0].ID.N != 2 {
		t.Fatalf("%+v %v", marks, err)
	}
}

// A journal's key of another type concerns its partition alone, and the session
// begins anew once it is mended.
func TestJournalOfAnotherType(t *testing.T) {
	s, logs := start(t, 1)
	l := logs[0]
	other := "b"
	for i := 0; l.JournalKey(other) == l.JournalKey("a"); i++ {
		other = fmt.Sprint("b", i)
	}
	s.Do("SET", l.JournalKey("a"), "x")
	sess := listen(t, l)
	for i := range 8 {
		publish(t, l, other, "x")
		if marks, err := wait(t, sess, 5*time.Second); err != nil || marks[0].ID.N != uint64(i+1) {
			t.Fatalf("the others: %+v %v", marks, err)
		}
		<-time.After(100 * time.Millisecond) // some audits
	}
	if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrBroken) {
		t.Fatalf("append: %v", err)
	}
	s.Do("DEL", l.JournalKey("a"))
	publish(t, l, "a", "x")
	if err, took := waitOver(t, sess, 5*time.Second); took > 1500*time.Millisecond {
		t.Fatalf("over after %v: %v", took, err)
	}
	next := listen(t, l)
	publish(t, l, "a", "x")
	if marks, err := wait(t, next, 5*time.Second); err != nil || marks[0].ID.N != 2 {
		t.Fatalf("mended: %+v %v", marks, err)
	}
}

// Nobody takes the marks for a while: the session waits, none is lost.
func TestSlowWaiter(t *testing.T) {
	_, logs := start(t, 1)
	sess := listen(t, logs[0])
	const n = 3000
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range n / 8 {
				publish(t, logs[0], fmt.Sprint("c", w), "x")
			}
		})
	}
	wg.Wait()
	<-time.After(1200 * time.Millisecond) // several audits
	for got := 0; got < n; {
		marks, err := wait(t, sess, 5*time.Second)
		if err != nil {
			t.Fatalf("after %d of %d: %v", got, n, err)
		}
		got += len(marks)
	}
}

func TestCloseInterrupts(t *testing.T) {
	_, logs := start(t, 1)
	sess := listen(t, logs[0])
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := sess.Wait(t.Context()); !errors.Is(err, stream.ErrClosed) {
			t.Errorf("wait: %v", err)
		}
	})
	start := time.Now()
	sess.Close()
	sess.Close()
	wg.Wait()
	if d := time.Since(start); d > time.Second {
		t.Fatalf("closing took %v", d)
	}
	if _, err := sess.Read(t.Context(), nil); !errors.Is(err, stream.ErrClosed) {
		t.Fatalf("read: %v", err)
	}
	other := listen(t, logs[0])
	if err := logs[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Wait(t.Context()); !errors.Is(err, stream.ErrClosed) {
		t.Fatalf("wait after the log was closed: %v", err)
	}
	if _, err := logs[0].Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrClosed) {
		t.Fatalf("append: %v", err)
	}
	if _, err := logs[0].Listen(t.Context(), 0); !errors.Is(err, stream.ErrClosed) {
		t.Fatalf("listen: %v", err)
	}
}

// The answer is lost after the write: unknown, and the same key appends once.
// Holds G15.
func TestAnswerLost(t *testing.T) {
	s := startServer(t)
	p := redistest.NewProxy(t, s.Addr)
	l := open(t, redislog.Options{URL: p.URL()})
	publish(t, l, "a", "1") // the script is loaded, a connection made
	for _, how := range []string{"reused connection", "fresh connection"} {
		msg := stream.Message{Channel: "a", Payload: how, IdempotencyKey: how}
		if how == "fresh connection" {
			p.CloseConns()
		}
		p.CutReply("evalsha", 1)
		if _, err := l.Append(t.Context(), msg); !errors.Is(err, stream.ErrUnknownOutcome) {
			t.Fatalf("%s: %v", how, err)
		}
		a, err := l.Append(t.Context(), msg)
		if err != nil || !a.Replayed {
			t.Fatalf("%s, again: %+v %v", how, a, err)
		}
	}
	if got := texts(read(t, l, stream.Query{Channel: "a", Limit: 10})); len(got) != 3 {
		t.Fatalf("appended: %q", got)
	}
	// Lost before any script went out: surely nothing was appended.
	p.CloseConns()
	p.CutReply("hello", 1)
	if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrUnavailable) {
		t.Fatalf("handshake lost: %v", err)
	}
}
