package client

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// all reads a stream to its end.
func all(r io.Reader, most int) (events []sseEvent, retry int64, err error) {
	in := newEventReader(r, most)
	for {
		e, err := in.next()
		if err != nil {
			return events, in.retry, err
		}
		e.data = []byte(string(e.data))
		events = append(events, e)
	}
}

// The cases of WHATWG HTML, section 9.2.6.
func TestEventReader(t *testing.T) {
	for stream, want := range map[string][]sseEvent{
		"data: a\n\n":                     {{data: []byte("a")}},
		"data:a\ndata: b\ndata\n\n":       {{data: []byte("a\nb\n")}},
		"data:  a\r\n\r\n":                {{data: []byte(" a")}},
		"event: e\nid: 1\ndata: a\n\n":    {{name: "e", id: "1", data: []byte("a")}},
		"id: 1\n\ndata: a\n\n":            {{id: "1", data: []byte("a")}},
		"id: 1\ndata: a\n\ndata: b\n\n":   {{id: "1", data: []byte("a")}, {id: "1", data: []byte("b")}},
		"id: 1\x00\ndata: a\n\n":          {{data: []byte("a")}},
		"id: 1\ndata: a\n\nid\ndata:\n\n": {{id: "1", data: []byte("a")}, {data: []byte("")}},
		"event: e\n\ndata: a\n\n":         {{data: []byte("a")}},
		": a comment\n:\ndata: a\n:\n\n":  {{data: []byte("a")}},
		"later: 1\ndata: a\n\n":           {{data: []byte("a")}},
		"id: 1\ndata: torn\n":             nil,
		"data: torn":                      nil,
		"":                                nil,
	} {
		got, _, err := all(strings.NewReader(stream), 1000)
		require.ErrorIs(t, err, io.EOF)
		require.Len(t, got, len(want), "%q", stream)
		for i, e := range got {
			assert.Equal(t, [3]string{want[i].name, want[i].id, string(want[i].data)}, [3]string{e.name, e.id, string(e.data)}, "%q", stream)
		}
	}
	_, retry, _ := all(strings.NewReader("retry: 5\nretry: 7x\nretry: -1\nretry:\n"), 1000)
	assert.EqualValues(t, 5, retry)
}

// However a stream is cut into pieces it says the same, and no event is larger
// than allowed.
func FuzzEventReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "id: 1\r\ndata: a\r\ndata: b\r\n\r\n", "retry: 5\n\n:\n", "data: " + strings.Repeat("x", 70_000) + "\n\n", "\n\n\r\n:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const most = 100_000
		whole, retry, err := all(strings.NewReader(s), most)
		require.Error(t, err)
		pieces, retry2, err2 := all(iotest.OneByteReader(strings.NewReader(s)), most)
		require.Equal(t, err.Error(), err2.Error())
		require.Equal(t, whole, pieces)
		require.Equal(t, retry, retry2)
		for _, e := range whole {
			require.LessOrEqual(t, len(e.data), most)
			require.NotContains(t, e.id+e.name, "\n")
		}
	})
}
