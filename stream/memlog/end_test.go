package memlog_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

func add(t *testing.T, l *memlog.Log, m stream.Message) stream.Appended {
	t.Helper()
	a, err := l.Append(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestEndAlone(t *testing.T) {
	l := memlog.New(memlog.Options{})
	defer l.Close()
	s, err := l.Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	first := add(t, l, stream.Message{Channel: "a", Payload: "1"})
	if read(t, l, "a", stream.Earliest).Ended {
		t.Error("ended before its end")
	}
	// Of what is not the channel nothing counts.
	end := add(t, l, stream.Message{Channel: "a", End: stream.EndAlone, Payload: "p", Event: "e", Key: "k", IdempotencyKey: "i"})
	if end.Replayed || end.ID.N != 2 {
		t.Errorf("the end is %+v, want a new entry 2", end)
	}
	p := read(t, l, "a", first.ID)
	want := stream.Entry{ID: end.ID, Prev: first.ID.MS, Life: first.ID.MS, End: stream.EndAlone}
	if !p.Ended || p.Last != end.ID || len(p.Entries) != 1 || p.Entries[0] != want {
		t.Errorf("read as %+v, want the entry %+v", p, want)
	}
	marks, err := s.Wait(t.Context())
	if err != nil || len(marks) != 2 || marks[1] != (stream.Mark{Channel: "a", ID: end.ID, Bytes: stream.EntryOverhead}) {
		t.Errorf("announced as %+v, %v", marks, err)
	}

	if again := add(t, l, stream.Message{Channel: "a", End: stream.EndAlone}); again != (stream.Appended{ID: end.ID, Replayed: true}) {
		t.Errorf("ended again: %+v, want the first end's id", again)
	}
	for _, m := range []stream.Message{
		{Channel: "a", Payload: "late"},
		{Channel: "a", Payload: "late", End: stream.EndMessage},
		{Channel: "a", Payload: "late", IdempotencyKey: "i"},
	} {
		if _, err := l.Append(t.Context(), m); !errors.Is(err, stream.ErrEnded) {
			t.Errorf("%+v after the end: %v, want ErrEnded", m, err)
		}
	}
	if p := read(t, l, "a", end.ID); len(p.Entries) != 0 || p.Last != end.ID {
		t.Errorf("refused and still there: %+v", p)
	}
	if b := add(t, l, stream.Message{Channel: "b", Payload: "1"}); b.ID.N != 1 {
		t.Errorf("another channel: %+v", b)
	}
}

func TestEndWithAMessage(t *testing.T) {
	l := memlog.New(memlog.Options{})
	defer l.Close()
	m := stream.Message{Channel: "a", Payload: "bye", IdempotencyKey: "i", End: stream.EndMessage}
	end := add(t, l, m)
	if p := read(t, l, "a", stream.Earliest); !p.Ended || payloads(p) != "bye" || p.Entries[0].End != stream.EndMessage {
		t.Errorf("read as %+v", p)
	}
	// A repeat is answered as the first was, though the channel has ended since.
	if again := add(t, l, m); again != (stream.Appended{ID: end.ID, Replayed: true}) {
		t.Errorf("repeated: %+v, want %v replayed", again, end.ID)
	}
	m.Payload = "other"
	if _, err := l.Append(t.Context(), m); !errors.Is(err, stream.ErrConflict) {
		t.Errorf("the key with another message: %v, want ErrConflict", err)
	}
	if alone := add(t, l, stream.Message{Channel: "a", End: stream.EndAlone}); alone != (stream.Appended{ID: end.ID, Replayed: true}) {
		t.Errorf("ended again: %+v, want %v replayed", alone, end.ID)
	}
}

// The end outlives the messages, and goes with the counter.
// Holds G86.
func TestEndIsKeptAsLongAsTheCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlog.New(memlog.Options{})
		defer l.Close()
		add(t, l, stream.Message{Channel: "a", Payload: "1"})
		end := add(t, l, stream.Message{Channel: "a", End: stream.EndAlone})
		if err := l.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stream.DefaultRetention.MaxAge)
		if p := read(t, l, "a", end.ID); !p.Ended || p.Last != end.ID {
			t.Errorf("deleted and aged: %+v, want ended at %v", p, end.ID)
		}
		if _, err := l.Append(t.Context(), stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrEnded) {
			t.Errorf("a message after DELETE of an ended channel: %v, want ErrEnded", err)
		}
		time.Sleep(stream.DefaultRetention.ChannelTTL)
		if a := add(t, l, stream.Message{Channel: "a"}); a.ID.N != 1 || a.ID.MS <= end.ID.MS {
			t.Errorf("the forgotten channel begins anew with %v", a.ID)
		}
		if read(t, l, "a", stream.Earliest).Ended {
			t.Error("the new life is born ended")
		}
	})
}
