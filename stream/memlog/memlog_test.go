package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func publish(t *testing.T, l *memlog.Log, channel, payload string) stream.ID {
	t.Helper()
	a, err := l.Append(t.Context(), stream.Message{Channel: channel, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return a.ID
}

func read(t *testing.T, l *memlog.Log, channel string, after stream.ID) stream.Page {
	t.Helper()
	p, err := l.Read(t.Context(), stream.Query{Channel: channel, After: after, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func payloads(p stream.Page) string {
	var s []string
	for _, e := range p.Entries {
		s = append(s, e.Payload)
	}
	return strings.Join(s, " ")
}

// Holds G70.
func TestBytesDropTheOldestOfAllChannels(t *testing.T) {
	const room = 4 * (1000 + stream.EntryOverhead)
	l := memlog.New(memlog.Options{MaxBytes: room + 1500}) // three counters beside four messages
	defer l.Close()
	body := func(name string) string { return name + strings.Repeat(".", 1000-len(name)) }

	first := publish(t, l, "a", body("a1"))
	publish(t, l, "b", body("b1"))
	publish(t, l, "a", body("a2"))
	publish(t, l, "b", body("b2"))
	publish(t, l, "c", body("c1"))
	publish(t, l, "c", body("c2"))

	for channel, want := range map[string]int{"a": 1, "b": 1, "c": 2} {
		if got := len(read(t, l, channel, stream.Earliest).Entries); got != want {
			t.Errorf("channel %s holds %d messages, want %d", channel, got, want)
		}
	}
	p := read(t, l, "a", stream.BeforeFirst)
	if v := stream.Resume(stream.BeforeFirst, p); v.Gap == nil || v.Gap.Reason != stream.Trimmed || v.Gap.Missed != 1 {
		t.Errorf("a reader from before the first is told %+v, want 1 trimmed", v.Gap)
	}
	if v := stream.Resume(first, p); v.Gap != nil {
		t.Errorf("a reader that had the dropped message is told %+v, want nothing", v.Gap)
	}
	publish(t, l, "c", body("c3"))
	if got := publish(t, l, "a", "x").N; got != 3 {
		t.Errorf("the counter of a channel whose messages were dropped goes on with %d, want 3", got)
	}
}

func TestFullIsRefusedWithNothingDropped(t *testing.T) {
	l := memlog.New(memlog.Options{MaxBytes: 4096})
	defer l.Close()
	publish(t, l, "a", "kept")
	_, err := l.Append(t.Context(), stream.Message{Channel: "a", Payload: strings.Repeat("x", 5000)})
	if !errors.Is(err, stream.ErrFull) {
		t.Fatalf("a message larger than the log: %v, want ErrFull", err)
	}
	if got := payloads(read(t, l, "a", stream.Earliest)); got != "kept" {
		t.Errorf("the refused append left %q, want the old message", got)
	}
	for i := 0; ; i++ { // counters alone fill it in the end
		if i == 100 {
			t.Fatal("100 counters fit into 4 KiB")
		}
		_, err = l.Append(t.Context(), stream.Message{Channel: fmt.Sprint("c", i)})
		if errors.Is(err, stream.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Holds G70.
func TestAgeIsExactAndMemoryFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlog.New(memlog.Options{Retention: func(string) stream.Retention {
			return stream.Retention{MaxAge: time.Minute, ChannelTTL: time.Hour}
		}})
		defer l.Close()
		publish(t, l, "a", "1")
		time.Sleep(30 * time.Second)
		publish(t, l, "a", "2")
		time.Sleep(30*time.Second - time.Millisecond)
		if got := payloads(read(t, l, "a", stream.Earliest)); got != "1 2" {
			t.Errorf("a millisecond before its time: %q", got)
		}
		time.Sleep(time.Millisecond)
		if got := payloads(read(t, l, "a", stream.Earliest)); got != "2" {
			t.Errorf("at its time: %q", got)
		}
		time.Sleep(time.Minute)
		b, err := l.Bounds(t.Context(), "a")
		if err != nil || b.Length != 0 || b.Last.N != 2 || !b.First.IsZero() {
			t.Errorf("aged to nothing: %+v, %v", b, err)
		}
		if got := publish(t, l, "a", "3").N; got != 3 {
			t.Errorf("the counter goes on with %d, want 3", got)
		}
	})
}

// Holds G70.
func TestSilentChannelIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlog.New(memlog.Options{})
		defer l.Close()
		old := publish(t, l, "a", "1")
		time.Sleep(stream.DefaultRetention.ChannelTTL)
		if got := l.Known("a"); !got.IsZero() {
			t.Errorf("still known: %v", got)
		}
		id := publish(t, l, "a", "2")
		if id.N != 1 || id.MS <= old.MS {
			t.Errorf("a new life begins with %v after %v, want n = 1 and a later ms", id, old)
		}
		if v := stream.Resume(old, read(t, l, "a", old)); v.Gap == nil || v.Gap.Reason != stream.Reset {
			t.Errorf("a reader of the forgotten life is told %+v, want reset", v.Gap)
		}
	})
}

func TestSilentMemoryGoesWithTheAppendsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlog.New(memlog.Options{MaxBytes: 100_000, IdempotencyTTL: time.Minute})
		defer l.Close()
		for i := range 100 {
			_, err := l.Append(t.Context(), stream.Message{Channel: fmt.Sprint("c", i), IdempotencyKey: "k"})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(stream.DefaultRetention.ChannelTTL + stream.DefaultRetention.MaxAge)
		for range 20 { // a few at a time
			publish(t, l, "x", "")
		}
		// All their bytes are free again: a message fits that leaves room for nothing else.
		_, err := l.Append(t.Context(), stream.Message{Channel: "x", Payload: strings.Repeat("y", 99_000)})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestSessionThatLagsEnds(t *testing.T) {
	l := memlog.New(memlog.Options{JournalLength: 3})
	defer l.Close()
	s, err := l.Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		publish(t, l, "a", "")
		if i == 2 {
			if marks, err := s.Wait(t.Context()); err != nil || len(marks) != 3 || marks[2].ID.N != 3 {
				t.Fatalf("as many marks as the journal holds: %v, %v", marks, err)
			}
		}
	}
	publish(t, l, "a", "")
	publish(t, l, "a", "")
	for range 2 {
		if marks, err := s.Wait(t.Context()); !errors.Is(err, stream.ErrUnavailable) {
			t.Errorf("overtaken: %v, %v, want ErrUnavailable", marks, err)
		}
	}
	if _, err := s.Read(t.Context(), nil); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("reading in a session that is over: %v", err)
	}
	s.Close()
}

func TestWaitWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlog.New(memlog.Options{})
		s, err := l.Listen(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		type news struct {
			marks []stream.Mark
			err   error
		}
		heard := make(chan news)
		wait := func(ctx context.Context) {
			go func() {
				marks, err := s.Wait(ctx)
				heard <- news{marks, err}
			}()
			synctest.Wait() // it blocks
		}

		wait(t.Context())
		id := publish(t, l, "a", "12345")
		want := stream.Mark{Channel: "a", ID: id, Bytes: 5 + stream.EntryOverhead}
		if n := <-heard; n.err != nil || len(n.marks) != 1 || n.marks[0] != want {
			t.Errorf("after an append: %+v, want %+v", n, want)
		}

		wait(t.Context())
		if err := l.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		want = stream.Mark{Channel: "a", ID: id, Deleted: true}
		if n := <-heard; n.err != nil || len(n.marks) != 1 || n.marks[0] != want {
			t.Errorf("after a delete: %+v, want %+v", n, want)
		}

		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx)
		cancel()
		if n := <-heard; !errors.Is(n.err, context.Canceled) {
			t.Errorf("cancelled: %+v", n)
		}

		wait(t.Context())
		l.Close()
		if n := <-heard; !errors.Is(n.err, stream.ErrClosed) {
			t.Errorf("closed: %+v", n)
		}
		if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrClosed) {
			t.Errorf("append to a closed log: %v", err)
		}
	})
}
