package sse

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
)

var at = stream.ID{MS: 1764530000123, N: 42}

func message(channel string, e stream.Entry) *delivery.Item {
	return &delivery.Item{
		Kind: delivery.Message, Channel: channel, Pos: e.ID,
		Record: &delivery.Record{Channel: channel, Entry: e},
	}
}

func problem(err error) []byte { return []byte(`{"detail":"` + err.Error() + `"}`) }

// Holds G26, G41.
func TestGoldenFrames(t *testing.T) {
	moment := time.Date(2026, 1, 31, 12, 0, 0, 5e6, time.UTC)
	gap := func(g stream.Gap, pos stream.ID) *delivery.Item {
		return &delivery.Item{Kind: delivery.Gap, Channel: g.Channel, Gap: &g, Pos: pos}
	}
	for name, c := range map[string]struct {
		json bool
		item *delivery.Item
		want string
	}{
		"message": {false, message("a", stream.Entry{ID: at, Payload: "hi"}),
			"id: 1764530000123-42\ndata: hi\n\n"},
		"message with an event": {false, message("a", stream.Entry{ID: at, Payload: "hi", Event: "tick", Key: "k"}),
			"id: 1764530000123-42\nevent: tick\ndata: hi\n\n"},
		"empty payload": {false, message("a", stream.Entry{ID: at}),
			"id: 1764530000123-42\ndata: \n\n"},
		"lines": {false, message("a", stream.Entry{ID: at, Payload: "a\nb\r\nc\rd\n"}),
			"id: 1764530000123-42\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		"message as JSON": {true, message("a", stream.Entry{ID: at, Payload: "hi\r\n", Event: "tick", Key: "k"}),
			"id: 1764530000123-42\nevent: tick\ndata: " +
				`{"channel":"a","id":"1764530000123-42","time":"2025-11-30T19:13:20.123Z","payload":"hi\r\n","event":"tick","key":"k"}` + "\n\n"},
		"ready": {false, &delivery.Item{Kind: delivery.Ready, Ready: []delivery.ReadyChannel{{Channel: "a", Cursor: at, Replay: 12}}},
			"id: 1764530000123-42\nevent: rejoin.ready\n" +
				`data: {"channels":{"a":{"cursor":"1764530000123-42","replay":12}},"cursor":"1764530000123-42"}` + "\n\n"},
		"ready before the first": {false, &delivery.Item{Kind: delivery.Ready, Ready: []delivery.ReadyChannel{{Channel: "a", Cursor: stream.BeforeFirst}}},
			"id: 1-0\nevent: rejoin.ready\n" +
				`data: {"channels":{"a":{"cursor":"1-0","replay":0}},"cursor":"1-0"}` + "\n\n"},
		"gap trimmed": {false, gap(stream.Gap{Channel: "a", After: stream.ID{MS: 5, N: 3}, Next: at, Missed: 38, Reason: stream.Trimmed}, stream.ID{MS: 5, N: 3}),
			"id: 5-3\nevent: rejoin.gap\n" +
				`data: {"channel":"a","after":"5-3","next":"1764530000123-42","missed":38,"reason":"trimmed"}` + "\n\n"},
		"gap with nothing behind": {false, gap(stream.Gap{Channel: "a", After: stream.ID{MS: 5, N: 3}, Missed: 39, Reason: stream.Trimmed}, at),
			"id: 1764530000123-42\nevent: rejoin.gap\n" +
				`data: {"channel":"a","after":"5-3","next":null,"missed":39,"reason":"trimmed"}` + "\n\n"},
		"reset from the oldest": {false, gap(stream.Gap{Channel: "a", After: stream.ID{MS: 5, N: 3}, Next: at, Reason: stream.Reset}, stream.Earliest),
			"id: 0-0\nevent: rejoin.gap\n" +
				`data: {"channel":"a","after":"5-3","next":"1764530000123-42","missed":null,"reason":"reset"}` + "\n\n"},
		"state": {false, &delivery.Item{Kind: delivery.StateChange, State: &delivery.State{State: delivery.Live, Since: moment}},
			"event: rejoin.state\ndata: " + `{"state":"live","since":"2026-01-31T12:00:00.005Z"}` + "\n\n"},
		"state of some channels": {false, &delivery.Item{Kind: delivery.StateChange, State: &delivery.State{State: delivery.Stale, Since: moment, Channels: []string{"a"}}},
			"event: rejoin.state\ndata: " + `{"state":"stale","since":"2026-01-31T12:00:00.005Z","channels":["a"]}` + "\n\n"},
		"end": {false, &delivery.Item{Kind: delivery.End, Channel: "a", Pos: at},
			"id: 1764530000123-42\nevent: rejoin.end\ndata: " + `{"channel":"a","id":"1764530000123-42"}` + "\n\n"},
		"move": {false, &delivery.Item{Kind: delivery.Move, Within: 1500 * time.Millisecond},
			"event: rejoin.move\ndata: " + `{"within":1500}` + "\n\n"},
		"expired": {false, &delivery.Item{Kind: delivery.Expired}, "event: rejoin.expired\ndata: {}\n\n"},
		"error": {false, &delivery.Item{Kind: delivery.Error, Err: errors.New("no")},
			"event: rejoin.error\ndata: " + `{"detail":"no"}` + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEncoder([]string{"a"}, c.json, problem)
			require.Equal(t, c.want, string(e.Append(nil, c.item)))
		})
	}
	require.Equal(t, "retry: 1250\n\n", string(AppendRetry(nil, 1250*time.Millisecond)))
	require.Len(t, AppendPadding(nil), 2048)
	p := parse(string(AppendPadding(nil)) + Heartbeat)
	require.Len(t, p.comments, 2)
	require.Empty(t, p.events)
}

// With several channels each id is the whole cursor, which resumes all of them.
// Holds G8.
func TestSeveralChannels(t *testing.T) {
	channels := []string{"a", "b", "c"}
	e := NewEncoder(channels, true, problem)
	id := func(n uint64) stream.ID { return stream.ID{MS: 1000 + n, N: n} }

	var out []byte
	out = e.Append(out, &delivery.Item{Kind: delivery.StateChange, State: &delivery.State{State: delivery.Stale}})
	out = e.Append(out, &delivery.Item{Kind: delivery.Ready, Ready: []delivery.ReadyChannel{
		{Channel: "a", Cursor: id(1)}, {Channel: "b", Cursor: stream.BeforeFirst}, {Channel: "c", Cursor: id(7)},
	}})
	out = e.Append(out, message("b", stream.Entry{ID: id(3), Payload: "x", Event: "e"}))
	out = e.Append(out, &delivery.Item{
		Kind: delivery.Gap, Channel: "c", Pos: stream.Earliest,
		Gap: &stream.Gap{Channel: "c", After: id(7), Next: id(9), Reason: stream.Reset},
	})
	shared := message("a", stream.Entry{ID: id(2), Payload: "y"})
	out = e.Append(out, shared)

	events := parse(string(out)).events
	require.Len(t, events, 5)
	require.Empty(t, events[0].ID, "nothing is known before ready")
	for i, want := range []map[string]stream.ID{
		1: {"a": id(1), "b": stream.BeforeFirst, "c": id(7)},
		2: {"a": id(1), "b": id(3), "c": id(7)},
		3: {"a": id(1), "b": id(3), "c": stream.Earliest},
		4: {"a": id(2), "b": id(3), "c": stream.Earliest},
	} {
		for channel, pos := range want {
			c, err := stream.ParseCursor(events[i].ID)
			require.NoError(t, err)
			got, ok := c.Position(channel)
			require.True(t, ok)
			require.Equal(t, pos, got, "event %d channel %s", i, channel)
		}
	}
	require.Equal(t, "e", events[2].Type)
	var ready struct{ Cursor string }
	require.NoError(t, json.Unmarshal([]byte(events[1].Data), &ready))
	require.Equal(t, events[1].ID, ready.Cursor)

	// The same record on a connection of one channel has its plain id.
	one := NewEncoder([]string{"a"}, true, problem)
	require.Equal(t, "1002-2", parse(string(one.Append(nil, shared))).events[0].ID)
}

var hardPayloads = map[string]string{
	"plain":               "hi",
	"empty":               "",
	"LF":                  "a\nb",
	"CR":                  "a\rb",
	"CRLF":                "a\r\nb",
	"LFCR":                "a\n\rb",
	"only LF":             "\n",
	"only CRLF":           "\r\n",
	"trailing newline":    "a\n",
	"trailing newlines":   "a\n\n\n",
	"leading newline":     "\na",
	"leading space":       " a",
	"leading spaces":      "  a\n  b",
	"colon":               ": not a comment\n:nor this",
	"fields":              "id: 1\nevent: x\n\nretry: 1\ndata: y",
	"line separator":      "a\u2028b\u2029c",
	"NEL":                 "a\u0085b",
	"NUL":                 "a\x00b",
	"control":             "\x01\x1f\x7f",
	"byte order mark":     "\uFEFFa",
	"four bytes":          "😀𝄞",
	"quotes":              `"\"\\`,
	"long":                strings.Repeat("0123456789abcdef\n", 4096),
	"long without breaks": strings.Repeat("é", 1<<16),
}

// Holds G39.
func TestPayloadsRoundTrip(t *testing.T) {
	for name, payload := range hardPayloads {
		t.Run(name, func(t *testing.T) { roundTrip(t, payload, "tick") })
	}
}

// roundTrip encodes a message in both formats, with neighbours before and
// behind, and reads all three back.
func roundTrip(t *testing.T, payload, name string) {
	t.Helper()
	before := message("a", stream.Entry{ID: stream.ID{MS: 1, N: 1}, Payload: "before"})
	it := message("a", stream.Entry{ID: at, Payload: payload, Event: name})
	behind := message("a", stream.Entry{ID: stream.ID{MS: at.MS, N: at.N + 1}, Payload: "behind"})
	wantType := name
	if name == "" {
		wantType = "message"
	}
	for _, asJSON := range []bool{false, true} {
		e := NewEncoder([]string{"a"}, asJSON, problem)
		var out []byte
		for _, it := range []*delivery.Item{before, it, behind} {
			out = e.Append(out, it)
			out = append(out, Heartbeat...)
		}
		p := parse(string(out))
		require.Len(t, p.events, 3)
		require.Len(t, p.comments, 3)
		require.Equal(t, -1, p.retry, "a payload wrote a field")
		require.NotContains(t, string(out), "\r")
		got := p.events[1]
		require.Equal(t, at.String(), got.ID)
		require.Equal(t, wantType, got.Type)
		require.Equal(t, "1764530000123-43", p.events[2].ID)
		require.Equal(t, "message", p.events[2].Type)
		if !asJSON {
			require.Equal(t, strings.ReplaceAll(strings.ReplaceAll(payload, "\r\n", "\n"), "\r", "\n"), got.Data)
			continue
		}
		var m struct{ Channel, ID, Time, Payload, Event string }
		require.NoError(t, json.Unmarshal([]byte(got.Data), &m))
		require.Equal(t, payload, m.Payload)
		require.Equal(t, name, m.Event)
		require.NotContains(t, got.Data, "\u2028")
	}
}

// Another program may write what a publish would have refused; it must not be
// able to write fields or frames.
// Holds G16, G40.
func TestForeignEventCannotInject(t *testing.T) {
	for _, name := range []string{"a\nid: 9-9", "a\rdata: x", "a\x00b"} {
		e := NewEncoder([]string{"a"}, false, problem)
		p := parse(string(e.Append(nil, message("a", stream.Entry{ID: at, Payload: "hi", Event: name}))))
		require.Equal(t, []event{{"message", "hi", at.String()}}, p.events)
	}
}

func TestRecordIsEncodedOnce(t *testing.T) {
	it := message("a", stream.Entry{ID: at, Payload: "hi"})
	e := NewEncoder([]string{"a"}, false, problem)
	first := e.Append(nil, it)
	buf := make([]byte, 0, 256)
	allocs := testing.AllocsPerRun(100, func() {
		buf = NewEncoder([]string{"a"}, false, problem).Append(buf[:0], it)
	})
	require.Equal(t, first, buf)
	require.LessOrEqual(t, allocs, 1.0, "the encoder itself, and no new frame")
}

// Holds G39, G40.
func FuzzFrame(f *testing.F) {
	for _, payload := range hardPayloads {
		f.Add(payload, "tick")
	}
	f.Add("x", "")
	f.Add("x", " spaced : name ")
	f.Fuzz(func(t *testing.T, payload, name string) {
		if !utf8.ValidString(payload) || !utf8.ValidString(name) || strings.ContainsAny(name, "\r\n\x00") {
			return // a publish refuses it
		}
		roundTrip(t, payload, name)
	})
}

func BenchmarkAppend(b *testing.B) {
	it := message("a", stream.Entry{ID: at, Payload: strings.Repeat("x", 500)})
	e := NewEncoder([]string{"a"}, false, problem)
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = e.Append(buf[:0], it)
	}
}
