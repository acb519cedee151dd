package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// chunked frames text as chunks of the sizes given, the last for the rest.
func chunked(text string, sizes ...int) string {
	var b strings.Builder
	for len(text) > 0 {
		n := len(text)
		if len(sizes) > 0 {
			n, sizes = min(n, sizes[0]), sizes[1:]
		}
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, text[:n])
		text = text[n:]
	}
	return b.String()
}

// readStream feeds pieces through response and events and lists what came.
func readStream(pieces ...string) (got []string, status int, done bool, err error) {
	var r response
	var e events
	for _, piece := range pieces {
		whole := []byte(piece)
		p := whole
		for len(p) > 0 && err == nil && !r.done() {
			var body []byte
			body, p, err = r.next(p)
			for len(body) > 0 {
				var ok bool
				if body, ok = e.next(body); ok {
					v := &e.event
					got = append(got, fmt.Sprintf("%s|%s|%s|%d|%t", v.name, v.id, v.data, v.dataLen, v.hasID))
				}
			}
		}
		for i := range whole {
			whole[i] = '!' // the next read goes into the same buffer: nothing may point there
		}
	}
	return got, r.status, r.done(), err
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// TestStreamSplitAnywhere cuts one stream into two at every byte, into three at
// many, and into single bytes: the events must not depend on it.
func TestStreamSplitAnywhere(t *testing.T) {
	body := "retry: 1234\n\n" +
		"id: 1764530000123-41\nevent: rejoin.ready\ndata: {\"channels\":{}}\n\n" +
		":\n: a comment\n" +
		"id: 1764530000123-42\ndata: one\n\n" +
		"id:1764530000124-43\nevent: tick\ndata:two\ndata:  lines\ndata\n\n" +
		"data: no id\nunknown: field\n\n" +
		"event: nothing to dispatch\n\n" +
		"id: 1764530000125-44\ndata\n\n" +
		"id\n\n" +
		"data: unfinished"
	want := []string{
		`rejoin.ready|1764530000123-41|{"channels":{}}|15|true`,
		"|1764530000123-42|one|3|true",
		"tick|1764530000124-43|two\n lines\n|11|true",
		"||no id|5|false",
		"|1764530000125-44||0|true",
		"|||0|true",
	}
	for _, wire := range []string{
		streamHead + chunked(body),
		streamHead + chunked(body, 13, 61, 1, 1, 30, 2),
		"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + body,
		"HTTP/1.1 200 OK\nContent-Type: text/event-stream\nContent-Length: " + fmt.Sprint(len(body)) + "\n\n" + body,
	} {
		check := func(pieces ...string) {
			t.Helper()
			got, status, _, err := readStream(pieces...)
			if err != nil || status != 200 || !slices.Equal(got, want) {
				t.Fatalf("%q:\n%v, status %d, %q\nwant %q", pieces, err, status, got, want)
			}
		}
		check(wire)
		check(strings.Split(wire, "")...)
		for i := range wire {
			check(wire[:i], wire[i:])
			for j := i; j < len(wire); j += 7 {
				check(wire[:i], wire[i:j], wire[j:])
			}
		}
	}
}

// TestStreamOfBytes: an oversize line and event keep their length, not their bytes.
func TestStreamOfBytes(t *testing.T) {
	const size = 3 * maxKept
	wire := streamHead + chunked("id: 5-1\ndata: "+strings.Repeat("x", size)+"\ndata: y\n\n", 100, 4000, 1)
	var r response
	var e events
	p := []byte(wire)
	for len(p) > 0 {
		var body []byte
		var err error
		if body, p, err = r.next(p); err != nil {
			t.Fatal(err)
		}
		for len(body) > 0 {
			var ok bool
			if body, ok = e.next(body); ok && (e.event.dataLen != size+2 || len(e.event.data) > maxKept) {
				t.Errorf("data of %d bytes, %d kept; want %d and at most %d", e.event.dataLen, len(e.event.data), size+2, maxKept)
			}
			if len(e.line) > maxKept {
				t.Fatalf("%d bytes of a line are kept", len(e.line))
			}
		}
	}
	if e.event.dataLen != size+2 {
		t.Error("the event did not come")
	}
}

func TestResponseEnds(t *testing.T) {
	for _, tt := range []struct {
		name, wire string
		done       bool
		fault      string
	}{
		{"last chunk", streamHead + "3\r\n:\n\n\r\n0\r\n\r\n", true, ""},
		{"last chunk with a trailer", streamHead + "0\r\nX: y\r\n\r\n", true, ""},
		{"open", streamHead + "3\r\n:\n\n\r\n", false, ""},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", true, ""},
		{"empty", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", true, ""},
		{"length", "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno", true, ""},
		{"not HTTP", "SSH-2.0-x\r\n", false, "not an HTTP/1.1 response"},
		{"no header", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", false, "header line"},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false, "Content-Length"},
		{"bad chunk size", streamHead + "xyz\r\n", false, "chunk size"},
		{"empty chunk size", streamHead + "\r\n", false, "chunk size"},
		{"chunk too long", streamHead + "1\r\nab\r\n", false, "longer than its size"},
		{"endless head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead), false, "over"},
		{"many headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxHead), false, "over"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, pieces := range [][]string{{tt.wire}, strings.Split(tt.wire, "")} {
				_, _, done, err := readStream(pieces...)
				if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
					t.Fatalf("error %v, want %q", err, tt.fault)
				}
				if done != tt.done {
					t.Errorf("done %t, want %t", done, tt.done)
				}
			}
		})
	}
	if _, _, _, err := readStream("nonsense\r\n"); !errors.Is(err, errHead) {
		t.Errorf("error %v, want errHead", err)
	}
}

func TestRetry(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"retry: 1500\n":                 1500 * time.Millisecond,
		"retry:0\n":                     0,
		"retry: x\n":                    0,
		"retry\n":                       0,
		"retry: 99999999999999999999\n": 0,
	} {
		var e events
		e.next([]byte(text))
		if e.retry != want {
			t.Errorf("%q: retry %s, want %s", text, e.retry, want)
		}
	}
}

func TestStamp(t *testing.T) {
	for _, size := range []int{MinSize, 500, 5000} {
		want := stamp{channel: 12, seq: 345678, at: 98765432109876}
		p := appendPayload([]byte("before"), "0badf00d", want, size)[len("before"):]
		if len(p) != size {
			t.Errorf("size %d, want %d", len(p), size)
		}
		if got, ok := parseStamp(p, "0badf00d"); !ok || got != want {
			t.Errorf("%q: got %+v, %t", p, got, ok)
		}
		if _, ok := parseStamp(p, "0badf00e"); ok {
			t.Error("another run's payload is taken for this one's")
		}
		for n := range len("rb:0badf00d.12.345678.98765432109876 ") {
			if _, ok := parseStamp(p[:n], "0badf00d"); ok {
				t.Errorf("%q is no stamp", p[:n])
			}
		}
	}
	widest := appendPayload(nil, "0badf00d", stamp{channel: 1 << 31, seq: 1 << 40, at: 1 << 62}, MinSize)
	if len(widest) != MinSize {
		t.Errorf("the widest stamp takes %d bytes, MinSize is %d", len(widest), MinSize)
	}
}

// BenchmarkStream is the cost of one message of 500 bytes, framing included.
func BenchmarkStream(b *testing.B) {
	payload := appendPayload(nil, "0badf00d", stamp{seq: 1}, 500)
	wire := []byte(chunked("id: 1764530000123-42\ndata: " + string(payload) + "\n\n"))
	var r response
	var e events
	if _, _, err := r.next([]byte(streamHead)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(wire)))
	for b.Loop() {
		p := wire
		for len(p) > 0 {
			var body []byte
			body, p, _ = r.next(p)
			for len(body) > 0 {
				var ok bool
				if body, ok = e.next(body); ok {
					parseStamp(e.event.data, "0badf00d")
				}
			}
		}
	}
}
