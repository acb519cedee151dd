package stream_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"rejoin/stream"
)

// Holds G54.
func TestMessageJSON(t *testing.T) {
	e := stream.Entry{ID: id(1764530000123, 42), Payload: "a \"b\"\n\r\t\\\x00</script>\u2028\u2029€😀", Event: "e", Key: "k"}
	got := string(e.AppendJSON([]byte("x"), "news"))
	want := `x{"channel":"news","id":"1764530000123-42","time":"2025-11-30T19:13:20.123Z",` +
		`"payload":"a \"b\"\n\r\t\\\u0000</script>\u2028\u2029€😀","event":"e","key":"k"}`
	if got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
	e = stream.Entry{ID: id(1764530000000, 1)}
	got = string(e.AppendJSON(nil, "a"))
	want = `{"channel":"a","id":"1764530000000-1","time":"2025-11-30T19:13:20.000Z","payload":""}`
	if got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
}

func TestGapJSON(t *testing.T) {
	for _, tt := range []struct {
		gap  stream.Gap
		want string
	}{
		{stream.Gap{Channel: "a", After: id(1, 2), Next: id(3, 61), Missed: 58, Reason: stream.Trimmed},
			`{"channel":"a","after":"1-2","next":"3-61","missed":58,"reason":"trimmed"}`},
		{stream.Gap{Channel: "a", After: id(1, 2), Reason: stream.Reset},
			`{"channel":"a","after":"1-2","next":null,"missed":null,"reason":"reset"}`},
	} {
		if got, err := json.Marshal(tt.gap); err != nil || string(got) != tt.want {
			t.Errorf("%s, %v, want %s", got, err, tt.want)
		}
	}
}

// FuzzJSONString: any text is read back by the standard library as it was, its
// invalid bytes as U+FFFD, and is one line of a script.
// Holds G54.
func FuzzJSONString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "\u2028\u2029\u202a", "€😀", "\xff\xfe", "a\xe2\x80", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := stream.AppendJSONString(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %s: %v", s, b, err)
		}
		want := string([]rune(s)) // each invalid byte becomes U+FFFD
		if got != want {
			t.Fatalf("%q comes back as %q", s, got)
		}
		if strings.ContainsAny(string(b), "\n\r\u2028\u2029\x00") {
			t.Fatalf("%q: %q", s, b)
		}
	})
}

// Holds G56.
func TestErrorKinds(t *testing.T) {
	e := &stream.Error{Op: "append", Channel: "a", Kind: stream.ErrUnavailable, Err: io.EOF, Hint: "start it"}
	if !errors.Is(e, stream.ErrUnavailable) || !errors.Is(e, io.EOF) || errors.Is(e, stream.ErrFull) {
		t.Errorf("%v is of another kind", e)
	}
	if got, want := e.Error(), "append a: log unavailable: EOF (start it)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	e = &stream.Error{Op: "listen", Kind: stream.ErrClosed}
	if !errors.Is(e, stream.ErrClosed) || e.Error() != "listen: log closed" {
		t.Errorf("%v", e)
	}
}
