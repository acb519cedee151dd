package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a whole server on loopback with the embedded log.
type world struct {
	t      *testing.T
	log    *hookedLog
	broker *delivery.Broker
	api    *API
	logged *logBuffer
	url    string // of the public listener
	admin  string // of the operators'
	http   *http.Client
}

// hookedLog is the embedded log with a way to answer in its place.
type hookedLog struct {
	stream.Log

	mu      sync.Mutex // guards the following
	onWrite func(stream.Message) error
	onMany  func(context.Context, []stream.Message) []stream.Result
	onRead  func(stream.Query) (stream.Page, error)
	onOther error // of what neither appends nor reads
	writes  int   // messages
}

func (l *hookedLog) Append(ctx context.Context, m stream.Message) (stream.Appended, error) {
	l.mu.Lock()
	l.writes++
	hook := l.onWrite
	l.mu.Unlock()
	if hook != nil {
		if err := hook(m); err != nil {
			return stream.Appended{}, err
		}
	}
	return l.Log.Append(ctx, m)
}

func (l *hookedLog) AppendAll(ctx context.Context, ms []stream.Message) []stream.Result {
	l.mu.Lock()
	l.writes += len(ms)
	hook := l.onMany
	l.mu.Unlock()
	if hook != nil {
		return hook(ctx, ms)
	}
	return l.Log.AppendAll(ctx, ms)
}

func (l *hookedLog) Read(ctx context.Context, q stream.Query) (stream.Page, error) {
	l.mu.Lock()
	hook := l.onRead
	l.mu.Unlock()
	if hook != nil {
		return hook(q)
	}
	return l.Log.Read(ctx, q)
}

func (l *hookedLog) other() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.onOther
}

func (l *hookedLog) Bounds(ctx context.Context, channel string) (stream.Bounds, error) {
	if err := l.other(); err != nil {
		return stream.Bounds{}, err
	}
	return l.Log.Bounds(ctx, channel)
}

func (l *hookedLog) Delete(ctx context.Context, channel string) error {
	if err := l.other(); err != nil {
		return err
	}
	return l.Log.Delete(ctx, channel)
}

func (l *hookedLog) Channels(ctx context.Context, q stream.ChannelQuery) (stream.ChannelPage, error) {
	if err := l.other(); err != nil {
		return stream.ChannelPage{}, err
	}
	return l.Log.Channels(ctx, q)
}

// failWrites makes every append fail with err; nil ends that.
func (l *hookedLog) failWrites(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onWrite = func(stream.Message) error { return err }
}

// logBuffer holds what the server logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// patience is how long an answer or a stream of a test may last in all: a
// broken promise is to fail, not to hang.
const patience = 30 * time.Second

func newWorld(t *testing.T, o Options) *world {
	return newWorldOn(t, memlog.New(memlog.Options{}), o)
}

func newWorldOn(t *testing.T, log *memlog.Log, o Options) *world {
	w := &world{t: t, log: &hookedLog{Log: log}, logged: &logBuffer{}}
	o.Metrics = NewMetrics()
	w.broker = delivery.New(w.log, delivery.Options{Meter: o.Metrics})
	o.Log, o.Broker = w.log, w.broker
	o.Logger = zerolog.New(w.logged)
	w.api = New(o)
	public := serve(t, w.api.Public)
	admin := serve(t, w.api.Admin)
	w.url, w.admin = public.URL, admin.URL
	w.http = &http.Client{Transport: &http.Transport{}, Timeout: patience}
	t.Cleanup(func() {
		w.http.CloseIdleConnections()
		w.broker.Close() // ends the streams, for which Close waits
		public.Close()
		w.api.Wait()
		admin.Close()
		require.NoError(t, log.Close())
	})
	return w
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config = NewServer(h, 0)
	s.Start()
	return s
}

// answered is an answer, read whole.
type answered struct {
	*http.Response
	body string
}

func (w *world) do(method, path, body string, header ...string) answered {
	w.t.Helper()
	return w.request(method, w.url+path, strings.NewReader(body), header...)
}

func (w *world) request(method, url string, body io.Reader, header ...string) answered {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, url, body)
	require.NoError(w.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := w.http.Do(r)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return answered{resp, string(b)}
}

// publish publishes and returns the id.
func (w *world) publish(channel, payload string) stream.ID {
	w.t.Helper()
	a := w.do("POST", "/v1/channels/"+channel+"/messages", payload)
	require.Equal(w.t, 201, a.StatusCode, a.body)
	var p published
	require.NoError(w.t, json.Unmarshal([]byte(a.body), &p))
	return p.ID
}

// problem checks that the answer is a problem of that status and code, and
// returns its detail.
func (a answered) problem(t *testing.T, status int, code string) string {
	t.Helper()
	require.Equal(t, status, a.StatusCode, a.body)
	require.Equal(t, []string{"application/problem+json"}, a.Header["Content-Type"])
	require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
	var p struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	in := json.NewDecoder(strings.NewReader(a.body))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&p), a.body)
	require.Equal(t, "about:blank", p.Type)
	require.Equal(t, http.StatusText(status), p.Title)
	require.Equal(t, status, p.Status)
	require.Equal(t, code, p.Code)
	require.NotEmpty(t, p.Detail)
	return p.Detail
}

// events opens a stream and returns a reader of its lines.
func (w *world) events(query string, header ...string) (*http.Response, *bufio.Scanner) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "GET", w.url+"/v1/sse?"+query, nil)
	require.NoError(w.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := w.http.Do(r)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 4<<20)
	return resp, in
}

// until reads lines up to one with that beginning, and returns its rest.
func until(t *testing.T, in *bufio.Scanner, prefix string) string {
	t.Helper()
	for in.Scan() {
		if rest, ok := strings.CutPrefix(in.Text(), prefix); ok {
			return rest
		}
	}
	require.FailNow(t, "the stream ended", "before %q: %v", prefix, in.Err())
	return ""
}
