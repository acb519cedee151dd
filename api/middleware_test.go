package api

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// guarded serves a handler behind guard alone.
func guarded(t *testing.T, h http.HandlerFunc) (*world, *logBuffer) {
	logged := &logBuffer{}
	a := &API{metrics: NewMetrics(), logger: zerolog.New(logged)}
	srv := serve(t, a.guard(h))
	w := &world{t: t, url: srv.URL, http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() { w.http.CloseIdleConnections(); srv.Close() })
	return w, logged
}

func TestPanicBecomesAProblem(t *testing.T) {
	w, logged := guarded(t, func(http.ResponseWriter, *http.Request) { panic("a bug") })
	w.do("GET", "/", "").problem(t, 500, "internal")
	require.Contains(t, logged.String(), "a bug")
	require.Contains(t, logged.String(), "middleware_test.go", "the stack")
}

// A panic behind the head cuts the answer off: half an answer must not look whole.
func TestPanicBehindTheHeadAborts(t *testing.T) {
	w, _ := guarded(t, func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, "half")
		_ = http.NewResponseController(out).Flush()
		panic("a bug")
	})
	resp, err := w.http.Get(w.url)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestAbortPasses(t *testing.T) {
	w, logged := guarded(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := w.http.Get(w.url)
	require.ErrorIs(t, err, io.EOF)
	require.NotContains(t, logged.String(), "panic")
}

// Any Host is served, a head without measure is not.
// Holds G17.
func TestHeads(t *testing.T) {
	w := newWorld(t, Options{})
	for _, host := range []string{"rejoin.example", "[::1]:8080", "10.0.0.1"} {
		conn := w.dial()
		_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	require.Equal(t, 431, w.do("GET", "/healthz", "", "X-Long", strings.Repeat("x", 80<<10)).StatusCode)
	require.Equal(t, 200, w.do("GET", "/healthz?"+strings.Repeat("x", 40<<10), "").StatusCode, "a hundred channels fit")

	s := NewServer(http.NotFoundHandler(), 0)
	require.NotZero(t, s.ReadHeaderTimeout)
	require.NotZero(t, s.IdleTimeout)
	require.Zero(t, s.ReadTimeout, "it would end every stream")
	require.Zero(t, s.WriteTimeout, "it would end every stream")
}
