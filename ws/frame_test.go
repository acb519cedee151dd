package ws

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
)

var at = stream.ID{MS: 1764530000123, N: 42}

// problem is a problem object as the API writes it.
func problem(err error) []byte {
	b, _ := json.Marshal(err.Error())
	return fmt.Appendf(nil, `{"type":"about:blank","title":"Bad Request","status":400,"detail":%s,"code":"bad_request"}`, b)
}

func message(channel string, e stream.Entry) *delivery.Item {
	return &delivery.Item{
		Kind: delivery.Message, Channel: channel, Pos: e.ID,
		Record: &delivery.Record{Channel: channel, Entry: e},
	}
}

// split cuts a frame of ours into header and payload.
func split(b []byte) (head, payload []byte) {
	n := 2
	switch b[1] {
	case 126:
		n = 4
	case 127:
		n = 10
	}
	return b[:n], b[n:]
}

// The frames of a server, held by testdata/frames.txt: on each line a name, the
// header in hex, and the text.
// Holds G112.
func TestGoldenFrames(t *testing.T) {
	moment := time.Date(2026, 1, 31, 12, 0, 0, 5e6, time.UTC)
	gap := func(g stream.Gap, pos stream.ID) *delivery.Item {
		return &delivery.Item{Kind: delivery.Gap, Channel: g.Channel, Gap: &g, Pos: pos}
	}
	ref := json.RawMessage(`"r1"`)
	e := NewEncoder(1250*time.Millisecond, problem)
	var out strings.Builder
	add := func(name string, frame []byte) {
		head, payload := split(frame)
		fmt.Fprintf(&out, "%s\t%x\t%s\n", name, head, payload)
	}
	for _, c := range []struct {
		name string
		item *delivery.Item
	}{
		{"message", message("a", stream.Entry{ID: at, Payload: "hi"})},
		{"message, all fields", message("a", stream.Entry{ID: at, Payload: "a\r\nb\u2028\x00\"€😀", Event: "tick", Key: "k"})},
		{"message, empty", message("a", stream.Entry{ID: at})},
		{"ready", &delivery.Item{Kind: delivery.Ready, Ready: []delivery.ReadyChannel{{Channel: "a", Cursor: at, Replay: 12}}}},
		{"ready, several", &delivery.Item{Kind: delivery.Ready, Ready: []delivery.ReadyChannel{{Channel: "a", Cursor: at, Replay: 12}, {Channel: "b", Cursor: stream.BeforeFirst}}}},
		{"ready, none", &delivery.Item{Kind: delivery.Ready}},
		{"gap, trimmed", gap(stream.Gap{Channel: "a", After: stream.ID{MS: 5, N: 3}, Next: at, Missed: 38, Reason: stream.Trimmed}, stream.ID{MS: 5, N: 3})},
		{"gap, nothing behind", gap(stream.Gap{Channel: "a", After: stream.ID{MS: 5, N: 3}, Missed: 39, Reason: stream.Trimmed}, at)},
		{"gap, from the oldest", gap(stream.Gap{Channel: "a", After: stream.ID{MS: 5, N: 3}, Next: at, Reason: stream.Reset}, stream.Earliest)},
		{"state", &delivery.Item{Kind: delivery.StateChange, State: &delivery.State{State: delivery.Live, Since: moment}}},
		{"state of some", &delivery.Item{Kind: delivery.StateChange, State: &delivery.State{State: delivery.Stale, Since: moment, Channels: []string{"a"}}}},
		{"move", &delivery.Item{Kind: delivery.Move, Within: 1500 * time.Millisecond}},
		{"end", &delivery.Item{Kind: delivery.End, Channel: "a", Pos: at}},
		{"subscribed", &delivery.Item{Kind: delivery.Subscribed, Channel: "a", Ready: []delivery.ReadyChannel{{Channel: "a", Cursor: at, Replay: 3}}, Tag: ref}},
		{"subscribed, no ref", &delivery.Item{Kind: delivery.Subscribed, Channel: "a", Ready: []delivery.ReadyChannel{{Channel: "a", Cursor: at}}, Tag: json.RawMessage(nil)}},
		{"unsubscribed", &delivery.Item{Kind: delivery.Unsubscribed, Channel: "a", Tag: json.RawMessage(`7`)}},
		{"unsubscribed, no ref", &delivery.Item{Kind: delivery.Unsubscribed, Channel: "a", Tag: json.RawMessage(nil)}},
		{"error", &delivery.Item{Kind: delivery.Error, Channel: "a", Err: errors.New(`no "x"`)}},
	} {
		add(c.name, e.Frame(c.item))
	}
	add("error with a ref", e.Error(errors.New("no"), ref))
	add("expired", expiredFrame)
	add("auth", authFrame(ref))

	want, err := os.ReadFile("testdata/frames.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
	for line := range strings.Lines(out.String()) {
		require.True(t, json.Valid([]byte(strings.Split(line, "\t")[2])), line)
	}
}

// A frame is one in each size of its length, for the client's parser.
func TestFrameSizes(t *testing.T) {
	e := NewEncoder(0, problem)
	for _, n := range []int{0, 1, 20, 30, 40, 125, 126, 127, 65000, 65535, 65536, 1 << 20} {
		it := message("a", stream.Entry{ID: at, Payload: strings.Repeat("x", n)})
		b := e.Frame(it)
		in := bufio.NewReader(bytes.NewReader(b))
		f, err := readFrame(in)
		require.NoError(t, err)
		require.Zero(t, in.Buffered())
		require.Len(t, f.fields(t)["payload"], n)
		require.Same(t, &b[0], &e.Frame(it)[0], "encoded once")
		for at := range len(b) + 1 {
			want := len(b)
			if at == 0 {
				want = 0
			}
			if got := frameEnd(b, at); got != want {
				t.Fatalf("byte %d stands in a frame that ends at %d, not %d", at, got, want)
			}
		}
	}
	two := appendClose(appendFrame(nil, opPong, []byte("abc")), 1000, "x")
	for at, want := range []int{0, 5, 5, 5, 5, 5, 10, 10, 10, 10, 10} {
		require.Equal(t, want, frameEnd(two, at), at)
	}
}

// A problem that is none does no harm to the frame around it.
func TestErrorOfNoProblem(t *testing.T) {
	for _, p := range []string{"", "{}", "null", "[]", "text", `{"type":"x"}`} {
		e := NewEncoder(0, func(error) []byte { return []byte(p) })
		_, payload := split(e.Error(errors.New("no"), json.RawMessage("1")))
		require.Equal(t, `{"type":"error","ref":1}`, string(payload))
	}
}

func BenchmarkEncodeMessage(b *testing.B) {
	it := message("news.uk", stream.Entry{ID: at, Payload: strings.Repeat("x", 500)})
	b.ReportAllocs()
	for b.Loop() {
		encodeMessage(it.Record)
	}
}
