package stream_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"rejoin/stream"
)

func TestParseID(t *testing.T) {
	for s, want := range map[string]stream.ID{
		"0-0":              {},
		"1-0":              stream.BeforeFirst,
		"1764530000123-42": {MS: 1764530000123, N: 42},
		"18446744073709551615-18446744073709551615": stream.MaxID,
	} {
		got, err := stream.ParseID(s)
		if err != nil || got != want {
			t.Errorf("ParseID(%q) = %v, %v, want %v", s, got, err, want)
		}
		if got.String() != s {
			t.Errorf("%q is written %q", s, got.String())
		}
	}
	for _, s := range []string{
		"", "-", "1", "1-", "-1", "1-1-1", "01-1", "1-01", "00-0", "+1-1", "1-+1", "1--1", " 1-1", "1-1 ", "1-1\n",
		"1_0-1", "0x1-1", "a-1", "1-a", "1.0-1", "18446744073709551616-1", "1-18446744073709551616", "١-١", "*", "$", "-0-0",
	} {
		if got, err := stream.ParseID(s); !errors.Is(err, stream.ErrID) {
			t.Errorf("ParseID(%q) = %v, %v, want ErrID", s, got, err)
		}
	}
}

func TestIDOrder(t *testing.T) {
	ascending := []stream.ID{{}, {N: 1}, {MS: 1}, {MS: 1, N: 1}, {MS: 9, N: 10}, {MS: 10, N: 9}, stream.MaxID}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := a.Compare(b); got != cmp.Compare(i, j) {
				t.Errorf("%v against %v: %d", a, b, got)
			}
			if a.Less(b) != (i < j) {
				t.Errorf("%v less than %v: %v", a, b, a.Less(b))
			}
		}
		if a.IsZero() != (i == 0) {
			t.Errorf("%v is zero: %v", a, a.IsZero())
		}
	}
}

func TestIDTime(t *testing.T) {
	at := time.Date(2025, 11, 30, 19, 13, 20, 123_000_000, time.FixedZone("", 3600))
	id := stream.AtTime(at)
	if got := id.Time(); !got.Equal(at) || got.Location() != time.UTC {
		t.Errorf("%v is %v", at, got)
	}
	if before := (stream.ID{MS: id.MS - 1, N: 1 << 40}); !before.Less(id) {
		t.Errorf("%v of the millisecond before is not below %v", before, id)
	}
	if got := stream.AtTime(time.Unix(-5, 0)); !got.IsZero() {
		t.Errorf("a time before 1970 is %v, want 0-0", got)
	}
}

func TestIDText(t *testing.T) {
	var id stream.ID
	if err := id.UnmarshalText([]byte("5-6")); err != nil || id != (stream.ID{MS: 5, N: 6}) {
		t.Errorf("%v, %v", id, err)
	}
	if b, err := id.MarshalText(); err != nil || string(b) != "5-6" {
		t.Errorf("%s, %v", b, err)
	}
	if err := id.UnmarshalText([]byte("5")); !errors.Is(err, stream.ErrID) {
		t.Errorf("%v, want ErrID", err)
	}
}

// FuzzParseID: a text is refused, or is exactly how its id is written.
// Holds G7.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{"0-0", "1-0", "1764530000123-42", "18446744073709551615-1", "01-1", "1-", "-", "+1-1", "1_1-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := stream.ParseID(s)
		if err != nil {
			if err != stream.ErrID || id != (stream.ID{}) {
				t.Fatalf("%q: %v, %v", s, id, err)
			}
			return
		}
		if id.String() != s {
			t.Fatalf("%q is written %q", s, id)
		}
	})
}
