package sse

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

// writer is a ResponseWriter in memory, for tests in fake time.
type writer struct {
	mu        sync.Mutex
	head      http.Header
	buf       []byte
	flushed   []flush
	deadlines []time.Time
	fail      error
}

type flush struct {
	after time.Duration // since the test began
	text  string
}

var epoch time.Time // of the bubble

func (w *writer) Header() http.Header { return w.head }
func (w *writer) WriteHeader(int)     {}
func (w *writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return 0, w.fail
	}
	w.buf = append(w.buf, b...)
	return len(b), nil
}
func (w *writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed = append(w.flushed, flush{time.Since(epoch), string(w.buf)})
	w.buf = nil
}
func (w *writer) SetWriteDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return nil
}

// bubble runs a test in fake time, with a stream of channel a that is served to
// a writer in memory.
func bubble(t *testing.T, query string, test func(t *testing.T, log *memlog.Log, w *writer)) {
	synctest.Test(t, func(t *testing.T) {
		epoch = time.Now()
		log := memlog.New(memlog.Options{})
		broker := delivery.New(log, delivery.Options{})
		h := New(Options{Broker: broker, Problem: problem, RetryMin: time.Second, RetryMax: time.Second})
		req, err := delivery.ParseRequest(query, "", delivery.RequestRules{Now: time.Now()})
		require.NoError(t, err)
		w := &writer{head: http.Header{}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			_ = h.Serve(w, r, req)
		}()
		synctest.Wait()
		test(t, log, w)
		broker.Close()
		require.Equal(t, http.ErrAbortHandler, <-ended)
		require.NoError(t, log.Close())
	})
}

// A sign of life comes after a heartbeat of silence, and only then.
// Holds G42.
func TestHeartbeatOnlyInSilence(t *testing.T) {
	bubble(t, "channel=a&heartbeat=15s", func(t *testing.T, log *memlog.Log, w *writer) {
		publish := func() {
			_, err := log.Append(t.Context(), stream.Message{Channel: "a", Payload: "x"})
			require.NoError(t, err)
			synctest.Wait()
		}
		for range 5 { // 50 s of messages
			time.Sleep(10 * time.Second)
			publish()
		}
		time.Sleep(31 * time.Second)
		publish()
		time.Sleep(14 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		var beats []time.Duration
		for _, f := range w.flushed {
			if strings.Contains(f.text, ":\n") && !strings.Contains(f.text, "\n\n") {
				require.Equal(t, ":\n", f.text)
				beats = append(beats, f.after)
			}
		}
		require.Equal(t, []time.Duration{65 * time.Second, 80 * time.Second}, beats)
	})
}

// A large message goes out in pieces, each with a time of its own to make
// progress, so that a slow reader is not taken for a stuck one.
// Holds G47.
func TestDeadlineForEachPiece(t *testing.T) {
	bubble(t, "channel=a", func(t *testing.T, log *memlog.Log, w *writer) {
		before := len(w.deadlines)
		_, err := log.Append(t.Context(), stream.Message{Channel: "a", Payload: strings.Repeat("x", 100_000)})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, w.deadlines[before:], 7)
		for _, d := range w.deadlines[before:] {
			require.Equal(t, 10*time.Second, time.Until(d))
		}
		for _, f := range w.flushed {
			require.LessOrEqual(t, len(f.text), pieceBytes)
		}
	})
}

// A write that fails ends the stream, whatever else is going on.
func TestWriteError(t *testing.T) {
	bubble(t, "channel=a", func(t *testing.T, log *memlog.Log, w *writer) {
		w.mu.Lock()
		w.fail = errors.New("broken pipe")
		w.mu.Unlock()
		time.Sleep(15 * time.Second) // the next heartbeat
		synctest.Wait()
	})
}
