package ws

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
)

// Holds G114.
func TestParseCommand(t *testing.T) {
	seven := 7
	for text, want := range map[string]command{
		`{"type":"subscribe","channel":"news"}`:                                       {Type: "subscribe", Channel: "news"},
		`{"type":"subscribe","channel":"news","after":"1-2","rewind":7,"ref":"r"}`:    {Type: "subscribe", Channel: "news", After: "1-2", Rewind: &seven, Ref: json.RawMessage(`"r"`)},
		`{"type":"unsubscribe","channel":"news","ref":12}`:                            {Type: "unsubscribe", Channel: "news", Ref: json.RawMessage(`12`)},
		` {"ref":-1.5,"more":{"deep":[1,2]},"token":"t","type":"auth"} `:              {Type: "auth", Token: "t", Ref: json.RawMessage(`-1.5`)},
		`{"type":"subscribe","channel":"a","ref":null,"after":null,"rewind":null}`:    {Type: "subscribe", Channel: "a"},
		`{"ref":"` + strings.Repeat("x", maxRef-2) + `"}`:                             {Ref: json.RawMessage(`"` + strings.Repeat("x", maxRef-2) + `"`)},
		`{"type":"publish","channel":"a","payload":"x","ref":"\u00e9\u2028<script>"}`: {Type: "publish", Channel: "a", Ref: json.RawMessage(`"\u00e9\u2028<script>"`)},
	} {
		c, err := parseCommand([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, c, text)
	}
	for text, want := range map[string]string{
		``:                                     `message: want a JSON object, as in {"type":"subscribe","channel":"news"}`,
		`hello`:                                `message: want a JSON object, as in {"type":"subscribe","channel":"news"}`,
		`[]`:                                   `message: want a JSON object, as in {"type":"subscribe","channel":"news"}`,
		`"subscribe"`:                          `message: want a JSON object, as in {"type":"subscribe","channel":"news"}`,
		`{"type":"subscribe"`:                  `message: want a JSON object, as in {"type":"subscribe","channel":"news"}`,
		`{"type":"subscribe"}{}`:               `message: want a JSON object, as in {"type":"subscribe","channel":"news"}`,
		`{"type":5}`:                           `type: want a string`,
		`{"type":"subscribe","channel":["a"]}`: `channel: want a string`,
		`{"type":"subscribe","rewind":"5"}`:    `rewind: want a number`,
		`{"type":"subscribe","rewind":1.5}`:    `rewind: want a number`,
		`{"type":"subscribe","after":17}`:      `after: want a string`,
		`{"ref":{}}`:                           `ref: want a string or a number of at most 200 bytes`,
		`{"ref":true}`:                         `ref: want a string or a number of at most 200 bytes`,
		`{"ref":"` + strings.Repeat("x", maxRef-1) + `"}`: `ref: want a string or a number of at most 200 bytes`,
	} {
		_, err := parseCommand([]byte(text))
		require.EqualError(t, err, want, text)
	}
	c, err := parseCommand([]byte(`{"ref":"r","type":5,"channel":"a"}`))
	require.Error(t, err)
	require.Equal(t, command{Ref: json.RawMessage(`"r"`)}, c, "the ref comes back with the error")
}

func TestStart(t *testing.T) {
	rule := func(channel string) int { return len(channel) }
	number := func(n int) *int { return &n }
	many := stream.NewPositions([]string{"news", "b"})
	many.Set("news", stream.ID{MS: 5, N: 6})
	for name, c := range map[string]struct {
		command command
		rule    func(string) int
		want    delivery.Start
	}{
		"live":                            {command{Channel: "news"}, nil, delivery.Start{}},
		"after":                           {command{Channel: "news", After: "5-6"}, rule, delivery.StartAfter(stream.ID{MS: 5, N: 6})},
		"after and rewind":                {command{Channel: "news", After: "5-6", Rewind: number(3)}, rule, delivery.StartAfter(stream.ID{MS: 5, N: 6})},
		"earliest":                        {command{Channel: "news", After: "earliest"}, nil, delivery.StartAfter(stream.Earliest)},
		"whole cursor":                    {command{Channel: "news", After: many.String()}, nil, delivery.StartAfter(stream.ID{MS: 5, N: 6})},
		"a cursor that lacks it":          {command{Channel: "c", After: many.String(), Rewind: number(3)}, nil, delivery.StartRewind(3)},
		"a cursor that lacks it, no word": {command{Channel: "c", After: many.String()}, nil, delivery.Start{}},
		"rewind":                          {command{Channel: "news", Rewind: number(3)}, rule, delivery.StartRewind(3)},
		"rewind 0":                        {command{Channel: "news", Rewind: number(0)}, rule, delivery.Start{}},
		"the server's rule":               {command{Channel: "news"}, rule, delivery.StartRewind(4)},
	} {
		got, err := c.command.start(c.rule)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	for _, c := range []command{{After: "x"}, {After: "1~~"}, {Rewind: number(-1)}, {Rewind: number(delivery.MaxRewind + 1)}} {
		_, err := c.start(nil)
		_, ok := errors.AsType[*delivery.RequestError](err)
		require.True(t, ok, "%+v", c)
	}
}

// FuzzCommand: any text is a command or a fault of the client's, and its ref is
// safe to send back.
func FuzzCommand(f *testing.F) {
	for _, s := range []string{`{"type":"subscribe","channel":"a","ref":"r"}`, `{"ref":1e5}`, `{"ref":"\ud800"}`, `{`, `null`, "{\"ref\":\"\u2028\"}"} {
		f.Add([]byte(s))
	}
	e := NewEncoder(0, problem)
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseCommand(text)
		if err == nil {
			err = errors.New("any")
		} else if _, ok := errors.AsType[*delivery.RequestError](err); !ok {
			t.Fatalf("%q: %v", text, err)
		}
		b := e.Error(err, c.Ref)
		if len(b) > 4096 {
			t.Fatalf("%q: an answer of %d bytes", text, len(b))
		}
		if _, payload := split(b); !json.Valid(payload) {
			t.Fatalf("%q is answered %q", text, b)
		}
	})
}
