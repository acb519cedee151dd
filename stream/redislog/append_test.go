package redislog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"rejoin/stream"
	"rejoin/stream/redislog"
)

func TestAppendThenRead(t *testing.T) {
	_, logs := start(t, 2)
	var ids []stream.ID
	for i := range 5 {
		ids = append(ids, publish(t, logs[i%2], "a", fmt.Sprint(i)))
	}
	for i, id := range ids {
		if id.N != uint64(i+1) {
			t.Fatalf("ids are not dense: %v", ids)
		}
	}
	p := read(t, logs[1], stream.Query{Channel: "a", After: ids[1], Limit: 2})
	if got := texts(p); !slices.Equal(got, []string{"2", "3"}) || !p.More || !p.Placed || p.Last != ids[4] || p.Life != ids[0].MS {
		t.Fatalf("after the second: %+v", p)
	}
	if p.Entries[0].Prev != ids[1].MS || p.Entries[0].Life != ids[0].MS {
		t.Fatalf("the chain: %+v", p.Entries[0])
	}
	p = read(t, logs[0], stream.Query{Channel: "a", Before: stream.MaxID, Limit: 2})
	if got := texts(p); !slices.Equal(got, []string{"3", "4"}) || !p.More {
		t.Fatalf("the newest two: %+v", p)
	}
	p = read(t, logs[0], stream.Query{Channel: "a", After: ids[2], Limit: 10, Follow: true})
	if got := texts(p); !slices.Equal(got, []string{"3", "4"}) || p.More {
		t.Fatalf("following: %+v", p)
	}
	b, err := logs[0].Bounds(t.Context(), "a")
	if want := (stream.Bounds{First: ids[0], Last: ids[4], Length: 5}); err != nil || b != want {
		t.Fatalf("bounds %+v %v, want %+v", b, err, want)
	}
	if got := logs[1].Known("a"); got != ids[4] {
		t.Fatalf("known %v, want %v", got, ids[4])
	}
}

// Every key of an append, made a list: the append is refused and leaves nothing.
// Holds G14.
func TestWrongTypeLeavesNothingBehind(t *testing.T) {
	s, logs := start(t, 1)
	l := logs[0]
	msg := stream.Message{Channel: "a", Payload: "x", IdempotencyKey: "key"}
	keys := map[string]string{
		"stream": l.StreamKey("a"), "small key": l.SmallKey("a"), "idempotency key": l.IdempotencyKey("a", "key"),
		"journal": l.JournalKey("a"), "journal's end": l.JournalEndKey("a"),
	}
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			s.Do("FLUSHALL")
			s.Do("RPUSH", key, "foreign")
			_, err := l.Append(t.Context(), msg)
			if !errors.Is(err, stream.ErrBroken) || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Fatalf("append: %v", err)
			}
			if name != "idempotency key" {
				if err := l.Delete(t.Context(), "a"); !errors.Is(err, stream.ErrBroken) {
					t.Fatalf("delete: %v", err)
				}
			}
			if got := s.Do("DBSIZE"); got != int64(1) {
				t.Fatalf("left behind: %v", s.Do("KEYS", "*"))
			}
		})
	}
}

func TestIdempotency(t *testing.T) {
	_, logs := start(t, 2)
	msg := stream.Message{Channel: "a", Payload: "x", Event: "e", Key: "k", IdempotencyKey: "once"}
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		ids = map[stream.ID]int{}
		new int
	)
	for i := range 50 {
		wg.Go(func() {
			a, err := logs[i%2].Append(t.Context(), msg)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			ids[a.ID]++
			if !a.Replayed {
				new++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || new != 1 {
		t.Fatalf("50 repeats: ids %v, %d of them new", ids, new)
	}
	for _, other := range []stream.Message{
		{Channel: "a", Payload: "y", Event: "e", Key: "k", IdempotencyKey: "once"},
		{Channel: "a", Payload: "x", Event: "f", Key: "k", IdempotencyKey: "once"},
		{Channel: "a", Payload: "xe", Event: "", Key: "k", IdempotencyKey: "once"},
	} {
		if _, err := logs[0].Append(t.Context(), other); !errors.Is(err, stream.ErrConflict) {
			t.Fatalf("%+v: %v", other, err)
		}
	}
	if p := read(t, logs[0], stream.Query{Channel: "a", Limit: 10}); len(p.Entries) != 1 {
		t.Fatalf("appended %d times", len(p.Entries))
	}
}

// Holds G5.
func TestNewLife(t *testing.T) {
	s, logs := start(t, 2)
	l := logs[0]
	first := publish(t, l, "a", "1")
	second := publish(t, l, "a", "2")
	s.Do("DEL", l.StreamKey("a"), l.SmallKey("a"))
	third := publish(t, l, "a", "3")
	if third.N != 3 || third.MS <= second.MS {
		t.Fatalf("behind %v a noticed loss goes on at %v", second, third)
	}
	p := read(t, l, stream.Query{Channel: "a", After: first, Limit: 10})
	if e := p.Entries[0]; e.Prev != 0 || e.Life != third.MS {
		t.Fatalf("the first of a new life: %+v", e)
	}
	// A server that knows nothing begins at 1.
	s.Do("DEL", l.StreamKey("a"), l.SmallKey("a"))
	logs[1].SetClock(third.MS + 1000)
	if id := publish(t, logs[1], "a", "4"); id.N != 1 {
		t.Fatalf("a forgotten channel begins at %v", id)
	}
	// The other knows third: older than this life, so no loss of it.
	if id := publish(t, l, "a", "5"); id.N != 2 {
		t.Fatalf("an id of a life before was taken for a loss: %v", id)
	}
}

// What was known from a clock far ahead does not begin a new life at each append.
func TestKnownFarAhead(t *testing.T) {
	_, logs := start(t, 1)
	l := logs[0]
	now := uint64(l.Now().UnixMilli())
	l.Learn("a", stream.ID{MS: now + 3_600_000, N: 7})
	a := publish(t, l, "a", "1")
	b := publish(t, l, "a", "2")
	if a.N != 8 || a.MS > now+60_000 || b.N != 9 {
		t.Fatalf("behind a known id an hour ahead: %v %v", a, b)
	}
	if p := read(t, l, stream.Query{Channel: "a", After: a, Limit: 1}); p.Entries[0].Prev != a.MS {
		t.Fatalf("a new life again: %+v", p.Entries[0])
	}
}

func TestDelete(t *testing.T) {
	s, logs := start(t, 2)
	a := publish(t, logs[0], "a", "1")
	b := publish(t, logs[0], "a", "2")
	if err := logs[1].Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	p := read(t, logs[0], stream.Query{Channel: "a", After: a, Limit: 10})
	if len(p.Entries) != 0 || p.Last != b || p.Floor != b || !p.Placed {
		t.Fatalf("after the delete: %+v", p)
	}
	c := publish(t, logs[1], "a", "3")
	if c.N != 3 {
		t.Fatalf("the counter did not stay: %v", c)
	}
	if err := logs[0].Delete(t.Context(), "never"); err != nil {
		t.Fatal(err)
	}
	if got := s.Do("EXISTS", logs[0].SmallKey("never"), logs[0].StreamKey("never")); got != int64(0) {
		t.Fatal("deleting nothing left something")
	}
	// Deleted and the small key lost: the stream's own counter goes on.
	if err := logs[1].Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	s.Do("DEL", logs[0].SmallKey("a"))
	logs[0].Forget("a")
	if p := read(t, logs[0], stream.Query{Channel: "a", After: c, Limit: 1}); p.Last != c {
		t.Fatalf("without its small key a deleted channel ends at %v, want %v", p.Last, c)
	}
	logs[0].Forget("a")
	if d := publish(t, logs[0], "a", "4"); d.N != 4 {
		t.Fatalf("and goes on at %v", d)
	}
}

// Holds G16.
func TestForeignWriters(t *testing.T) {
	s, logs := start(t, 1)
	l := logs[0]
	a := publish(t, l, "a", "1")
	s.Do("XADD", l.StreamKey("a"), "*", "x", "y")
	ahead := stream.ID{MS: a.MS + 10_000_000, N: 0}
	s.Do("XADD", l.StreamKey("a"), ahead.String(), "x", "y")
	b := publish(t, l, "a", "2")
	if b.N != 2 || b.MS != ahead.MS+1 {
		t.Fatalf("behind a foreign entry at %v: %v", ahead, b)
	}
	for i := range 30 {
		s.Do("XADD", l.StreamKey("a"), stream.ID{MS: b.MS + 1, N: uint64(i)}.String(), "x", "y")
	}
	s.Do("DEL", l.SmallKey("a"))
	c := publish(t, l, "a", "3")
	if c.N < 3 {
		t.Fatalf("small key lost below foreign entries: %v", c)
	}
	p := read(t, l, stream.Query{Channel: "a", After: a, Limit: 1})
	if got := texts(p); !slices.Equal(got, []string{"2"}) || !p.More || !p.Placed {
		t.Fatalf("over foreign entries: %+v", p)
	}
	p = read(t, l, stream.Query{Channel: "a", After: b, Limit: 1, Follow: true})
	if got := texts(p); !slices.Equal(got, []string{"3"}) || p.More {
		t.Fatalf("following over foreign entries: %+v", p)
	}
	// The end of all ids: refused for good, truthfully.
	s.Do("XADD", l.StreamKey("a"), "18446744073709551615-18446744073709551615", "x", "y")
	if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrBroken) {
		t.Fatalf("a stream that takes no more: %v", err)
	}
	// In the journal it is only in the way.
	s.Do("XADD", l.JournalKey("b"), "18446744073709551615-18446744073709551615", "x", "y")
	publish(t, l, "b", "1")
}

// Holds G28.
func TestServedExactly(t *testing.T) {
	s := startServer(t)
	l := open(t, redislog.Options{URL: s.URL(), Retention: func(string) stream.Retention {
		return stream.Retention{MaxMessages: 7}
	}})
	var ids []stream.ID
	for i := range 250 {
		ids = append(ids, publish(t, l, "a", fmt.Sprint(i)))
		if i%50 != 49 {
			continue
		}
		b, err := l.Bounds(t.Context(), "a")
		if err != nil || b.First != ids[i-6] || b.Length != 7 {
			t.Fatalf("of %d the newest 7 are served from %v: %+v %v", i+1, ids[i-6], b, err)
		}
		p := read(t, l, stream.Query{Channel: "a", Before: stream.MaxID, Limit: 100})
		if len(p.Entries) != 7 || p.More {
			t.Fatalf("read back: %d, more %v", len(p.Entries), p.More)
		}
		p = read(t, l, stream.Query{Channel: "a", After: ids[i-6], Limit: 100})
		if len(p.Entries) != 6 || !p.Placed {
			t.Fatalf("behind the oldest: %d", len(p.Entries))
		}
	}
	if got := s.Do("XLEN", l.StreamKey("a")).(int64); got > 120 {
		t.Fatalf("%d are stored", got)
	}
	// A cursor that is none of the stored ids is not placed.
	p := read(t, l, stream.Query{Channel: "a", After: stream.ID{MS: ids[248].MS, N: 1 << 40}, Limit: 5})
	if p.Placed || p.Oldest != ids[243] {
		t.Fatalf("not placed: %+v, oldest served %v", p, ids[243])
	}
}

func TestLargePayloads(t *testing.T) {
	_, logs := start(t, 2)
	big := strings.Repeat("x", 1<<20)
	var ids []stream.ID
	for range 30 {
		ids = append(ids, publish(t, logs[0], "a", big))
	}
	p := read(t, logs[1], stream.Query{Channel: "a", After: ids[0], Limit: 1000})
	if len(p.Entries) != 29 || p.More || p.Entries[28].Payload != big {
		t.Fatalf("read %d of 29, more %v", len(p.Entries), p.More)
	}
	p = read(t, logs[1], stream.Query{Channel: "a", Limit: 1000, MaxBytes: 3 << 20})
	if len(p.Entries) != 3 || !p.More {
		t.Fatalf("3 MiB are %d messages, more %v", len(p.Entries), p.More)
	}
	p = read(t, logs[1], stream.Query{Channel: "a", Limit: 1000, MaxBytes: 1})
	if len(p.Entries) != 1 || !p.More {
		t.Fatalf("one at least: %d, more %v", len(p.Entries), p.More)
	}
}

// Holds G76.
func TestPartitionsMustAgree(t *testing.T) {
	s, _ := start(t, 1)
	_, err := redislog.Open(t.Context(), redislog.Options{URL: s.URL(), Partitions: 16})
	if !errors.Is(err, stream.ErrBroken) || !strings.Contains(err.Error(), "16") || !strings.Contains(err.Error(), "32") {
		t.Fatalf("16 where 32 are stored: %v", err)
	}
}
