package longpoll

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log, a broker and, outside bubbles, a server of polls on loopback.
type world struct {
	t       *testing.T
	log     *testLog
	broker  *delivery.Broker
	handler *Handler
	url     string
	client  *http.Client
}

// newWorld is a world on sockets.
func newWorld(t *testing.T, o Options, lo memlog.Options) *world {
	w := newSilentWorld(t, o, lo)
	srv := httptest.NewServer(w)
	w.url = srv.URL
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		w.broker.Close() // ends the polls, for which srv.Close waits
		w.handler.Wait()
		srv.Close()
		require.NoError(t, w.log.Close())
	})
	return w
}

// newSilentWorld is a world without sockets; whoever makes it closes it.
func newSilentWorld(t *testing.T, o Options, lo memlog.Options) *world {
	w := &world{t: t, log: newTestLog(lo)}
	w.broker = delivery.New(w.log, delivery.Options{Retention: lo.Retention})
	o.Broker = w.broker
	o.Fail = w.fail
	w.handler = New(o)
	return w
}

// bubble runs a test in fake time, without sockets.
func bubble(t *testing.T, lo memlog.Options, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newSilentWorld(t, Options{}, lo)
		defer func() {
			w.broker.Close()
			require.NoError(t, w.log.Close())
		}()
		test(t, w)
	})
}

// ServeHTTP does what the API does.
func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	req, err := delivery.ParseRequest(r.URL.RawQuery, r.Header.Get("Last-Event-ID"), delivery.RequestRules{Now: w.log.Now()})
	if err == nil {
		err = w.handler.Serve(out, r, req)
	}
	if err != nil {
		w.fail(out, r, err)
	}
}

// fail answers with an error.
func (w *world) fail(out http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if _, bad := errors.AsType[*delivery.RequestError](err); bad {
		status = http.StatusBadRequest
	} else if errors.Is(err, stream.ErrUnavailable) {
		status = http.StatusServiceUnavailable
	}
	body, _ := json.Marshal(map[string]string{"detail": err.Error()})
	WriteError(out, r, status, body)
}

func (w *world) publish(channel, payload string) stream.ID {
	w.t.Helper()
	return w.append(stream.Message{Channel: channel, Payload: payload})
}

func (w *world) append(m stream.Message) stream.ID {
	w.t.Helper()
	done, err := w.log.Append(w.t.Context(), m)
	require.NoError(w.t, err)
	return done.ID
}

func (w *world) end(channel string) stream.ID {
	w.t.Helper()
	return w.append(stream.Message{Channel: channel, End: stream.EndAlone})
}

// signal wakes who waits for it, if anybody does.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// get asks, whatever the answer is.
func (w *world) get(query, cursor string) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+"/?"+query, nil)
	require.NoError(w.t, err)
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	if w.client == nil { // in a bubble
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		return rec.Result(), rec.Body.String()
	}
	resp, err := w.client.Do(r)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return resp, string(body)
}

// answered is an answer as a client reads it.
type answered struct {
	Messages []message
	Gaps     []gap
	Ended    []string
	Cursor   string
	State    string
	Retry    int
}

type message struct{ Channel, ID, Time, Payload, Event, Key string }

type gap struct {
	Channel, After, Reason string
	Next                   *string
	Missed                 *int
}

// poll asks and expects an answer, each part of which is there.
func (w *world) poll(query, cursor string) answered {
	w.t.Helper()
	resp, body := w.get(query, cursor)
	require.Equal(w.t, 200, resp.StatusCode, body)
	require.Equal(w.t, "application/json", resp.Header.Get("Content-Type"))
	require.Equal(w.t, "no-store", resp.Header.Get("Cache-Control"))
	a := parse(w.t, body)
	require.Equal(w.t, a.Cursor, resp.Header.Get("Last-Event-ID"))
	require.Equal(w.t, int64(len(body)), resp.ContentLength)
	return a
}

func parse(t *testing.T, body string) (a answered) {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(body))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&a), body)
	for _, name := range []string{"messages", "gaps", "ended", "cursor", "state", "retry"} {
		require.Contains(t, body, `"`+name+`":`)
	}
	require.GreaterOrEqual(t, a.Retry, 500)
	require.LessOrEqual(t, a.Retry, 3000)
	return a
}

func (a answered) payloads() string {
	var all []string
	for _, m := range a.Messages {
		all = append(all, m.Payload)
	}
	return strings.Join(all, " ")
}

// parked is a poll under way.
type parked struct{ result chan result }

type result struct {
	took time.Duration
	answered
}

func (w *world) park(query, cursor string) *parked {
	p := &parked{make(chan result, 1)}
	began := time.Now()
	go func() {
		a := w.poll(query, cursor)
		p.result <- result{time.Since(began), a}
	}()
	return p
}

// answer waits for the answer, and says how long it took.
func (p *parked) answer() (time.Duration, answered) {
	r := <-p.result
	return r.took, r.answered
}

// testLog is the embedded log, counting its reads; its sessions can be cut, and
// its channel broken cannot be read.
type testLog struct {
	*memlog.Log
	asked chan struct{} // Known was: somebody subscribes

	mu       sync.Mutex // guards the following
	reads    int
	away     bool
	sessions map[*testSession]struct{}
}

type testSession struct {
	stream.Session
	log *testLog
}

func newTestLog(o memlog.Options) *testLog {
	return &testLog{Log: memlog.New(o), asked: make(chan struct{}, 1), sessions: map[*testSession]struct{}{}}
}

func (l *testLog) Listen(ctx context.Context, part int) (stream.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return nil, &stream.Error{Op: "listen", Kind: stream.ErrUnavailable}
	}
	s, err := l.Log.Listen(ctx, part)
	if err != nil {
		return nil, err
	}
	ts := &testSession{s, l}
	l.sessions[ts] = struct{}{}
	return ts, nil
}

// cut ends every session; mend lets new ones begin.
func (l *testLog) cut() {
	l.mu.Lock()
	l.away = true
	cut := l.sessions
	l.sessions = map[*testSession]struct{}{}
	l.mu.Unlock()
	for s := range cut {
		s.Close()
	}
}

func (l *testLog) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

func (l *testLog) Known(channel string) stream.ID {
	signal(l.asked)
	return l.Log.Known(channel)
}

func (l *testLog) Read(ctx context.Context, q stream.Query) (stream.Page, error) {
	l.count()
	return l.Log.Read(ctx, q)
}

func (l *testLog) Bounds(ctx context.Context, channel string) (stream.Bounds, error) {
	l.count()
	return l.Log.Bounds(ctx, channel)
}

func (s *testSession) Read(ctx context.Context, qs []stream.Query) ([]stream.Page, error) {
	s.log.count()
	pages, err := s.Session.Read(ctx, qs)
	for i := range pages {
		if pages[i].Channel == "broken" {
			pages[i] = stream.Page{Channel: "broken", Err: &stream.Error{Op: "read", Kind: stream.ErrBroken}}
		}
	}
	return pages, err
}

func (l *testLog) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
}

func (l *testLog) readsSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}
