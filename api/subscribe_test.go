package api

import (
	"bufio"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every spelling of a cursor, as clients and polyfills have them, resumes.
// Holds G30.
func TestCursorSpellings(t *testing.T) {
	w := newWorld(t, Options{})
	old := w.publish("a", "one").String()
	id := w.publish("a", "two").String()
	w.publish("a", "three")
	for name, open := range map[string]func() (*http.Response, *bufio.Scanner){
		"header": func() (*http.Response, *bufio.Scanner) { return w.events("channel=a", "Last-Event-ID", id) },
		"header, repeated": func() (*http.Response, *bufio.Scanner) {
			return w.events("channel=a", "Last-Event-ID", old, "Last-Event-ID", id, "Last-Event-ID", "")
		},
		"header over query": func() (*http.Response, *bufio.Scanner) {
			return w.events("channel=a&lastEventId="+old, "Last-Event-ID", id)
		},
		"empty header": func() (*http.Response, *bufio.Scanner) {
			return w.events("channel=a&lastEventId="+id, "Last-Event-ID", "")
		},
		"polyfill appends": func() (*http.Response, *bufio.Scanner) {
			return w.events("channel=a&lastEventId=" + old + "&evs_last_event_id=" + id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp, in := open()
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, id, until(t, in, "id: "), "ready")
			until(t, in, "id: ")
			require.Equal(t, "three", until(t, in, "data: "))
		})
	}
}

// A start by rule holds for a client that names none, and only for it.
// Holds G34.
func TestRewindByChannel(t *testing.T) {
	w := newWorld(t, Options{Rewind: func(channel string) int {
		if channel == "quotes" {
			return 1
		}
		return 0
	}})
	for _, channel := range []string{"quotes", "other"} {
		w.publish(channel, "old")
		w.publish(channel, "newest")
	}
	_, in := w.events("channel=quotes")
	until(t, in, "event: rejoin.ready")
	until(t, in, "id: ")
	require.Equal(t, "newest", until(t, in, "data: "))

	_, in = w.events("channel=other")
	require.Contains(t, until(t, in, `data: {"channels"`), `"replay":0`)
	_, in = w.events("channel=quotes&rewind=0")
	require.Contains(t, until(t, in, `data: {"channels"`), `"replay":0`)
	_, in = w.events("channel=quotes&rewind=2")
	require.Contains(t, until(t, in, `data: {"channels"`), `"replay":2`)
}

// An unreadable cursor is told as a reset: a browser never retries a 400.
// Holds G25.
func TestUnreadableCursorOnSSE(t *testing.T) {
	w := newWorld(t, Options{})
	w.publish("a", "one")
	resp, in := w.events("channel=a", "Last-Event-ID", "42")
	require.Equal(t, 200, resp.StatusCode)
	until(t, in, "event: rejoin.gap")
	require.Contains(t, until(t, in, "data: "), `"missed":null,"reason":"reset"`)
	until(t, in, "id: ")
	require.Equal(t, "one", until(t, in, "data: "))
}
