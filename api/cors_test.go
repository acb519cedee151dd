package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	page1   = "https://app.example"
	exposed = "Last-Event-Id, Location, Retry-After, Idempotent-Replayed"
)

func (w *world) preflight(path, origin, method, headers string) answered {
	return w.do("OPTIONS", path, "", "Origin", origin,
		"Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
}

// Holds G57.
func TestPreflight(t *testing.T) {
	w := newWorld(t, Options{Origins: []string{page1}})
	for _, header := range []string{
		"last-event-id", "cache-control", "authorization", "content-type", "idempotency-key", "x-requested-with",
		"traceparent", "cache-control,last-event-id",
	} {
		for path, method := range map[string]string{"/v1/sse": "GET", "/v1/channels/a/messages": "POST", "/v1/channels/a": "DELETE"} {
			a := w.preflight(path, page1, method, header)
			require.Equal(t, 200, a.StatusCode)
			require.Equal(t, page1, a.Header.Get("Access-Control-Allow-Origin"), header)
			require.Equal(t, method, a.Header.Get("Access-Control-Allow-Methods"))
			require.Equal(t, len(strings.Split(header, ",")), len(strings.Split(a.Header.Get("Access-Control-Allow-Headers"), ",")))
			require.Equal(t, "86400", a.Header.Get("Access-Control-Max-Age"))
			require.Equal(t, "true", a.Header.Get("Access-Control-Allow-Credentials"))
			require.Contains(t, strings.Join(a.Header.Values("Vary"), ","), "Origin")
		}
	}
	for _, a := range []answered{
		w.preflight("/v1/sse", "https://evil.example", "GET", ""),
		w.preflight("/v1/sse", "https://app.example.evil.example", "GET", ""),
		w.preflight("/v1/sse", "null", "GET", ""),
		w.preflight("/v1/sse", page1, "PUT", ""),
		w.preflight("/v1/sse", page1, "GET", "x-other"),
	} {
		require.Empty(t, a.Header.Get("Access-Control-Allow-Origin"))
	}
}

// Answers say so too, and errors above all: a page that cannot read an error
// cannot tell one from another.
// Holds G57.
func TestCrossOriginAnswers(t *testing.T) {
	w := newWorld(t, Options{Origins: []string{page1}})
	w.publish("a", "x")
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1/channels/a/messages"},
		{"POST", "/v1/channels/a/messages"},
		{"POST", "/v1/channels/a%2Fb/messages"}, // 400
		{"GET", "/v1/sse"},                      // 400
		{"GET", "/nothing"},                     // 404
		{"POST", "/v1/sse"},                     // 405
		{"GET", "/readyz"},
	} {
		a := w.do(c.method, c.path, "x", "Origin", page1)
		require.Equal(t, page1, a.Header.Get("Access-Control-Allow-Origin"), c.path)
		require.Equal(t, exposed, a.Header.Get("Access-Control-Expose-Headers"))
		require.Equal(t, "true", a.Header.Get("Access-Control-Allow-Credentials"))
		a = w.do(c.method, c.path, "x", "Origin", "https://evil.example")
		require.Empty(t, a.Header.Get("Access-Control-Allow-Origin"), c.path)
		require.Equal(t, []string{"Origin"}, a.Header.Values("Vary"))
	}
	resp, _ := w.events("channel=a", "Origin", page1)
	require.Equal(t, page1, resp.Header.Get("Access-Control-Allow-Origin"))
}

// Holds G57.
func TestEveryOriginWithoutCredentials(t *testing.T) {
	w := newWorld(t, Options{Origins: []string{"*"}})
	for _, a := range []answered{
		w.do("GET", "/v1/channels/a/messages", "", "Origin", page1),
		w.preflight("/v1/sse", page1, "GET", "last-event-id"),
	} {
		require.Equal(t, "*", a.Header.Get("Access-Control-Allow-Origin"))
		require.Empty(t, a.Header.Get("Access-Control-Allow-Credentials"))
	}
}

// Holds G57.
func TestNoOriginByDefault(t *testing.T) {
	w := newWorld(t, Options{})
	for _, a := range []answered{
		w.do("GET", "/v1/channels/a/messages", "", "Origin", page1),
		w.preflight("/v1/sse", page1, "GET", "last-event-id"),
	} {
		require.Empty(t, a.Header.Get("Access-Control-Allow-Origin"))
	}
	require.Equal(t, http.StatusOK, w.do("GET", "/v1/channels/a/messages", "", "Origin", page1).StatusCode)
}
