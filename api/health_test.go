package api

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

// Holds G71.
func TestHealth(t *testing.T) {
	var ready atomic.Bool
	w := newWorld(t, Options{Ready: ready.Load})
	for _, base := range []string{w.url, w.admin} {
		for _, method := range []string{"GET", "HEAD"} {
			ready.Store(false)
			require.Equal(t, 200, w.request(method, base+"/healthz", http.NoBody).StatusCode)
			require.Equal(t, 503, w.request(method, base+"/readyz", http.NoBody).StatusCode)
			ready.Store(true)
			require.Equal(t, 200, w.request(method, base+"/readyz", http.NoBody).StatusCode)
			require.Equal(t, 200, w.request(method, base+"/readyz?log=1", http.NoBody).StatusCode)
		}
	}
	ready.Store(false)
	a := w.do("GET", "/readyz", "")
	a.problem(t, 503, "not_ready")
	require.Equal(t, "1", a.Header.Get("Retry-After"))
	w.do("GET", "/readyz?log=1", "").problem(t, 503, "not_ready")
}

// The log away does not make a server unready; asked for, it is told.
// Holds G71.
func TestReadyWithTheLogAway(t *testing.T) {
	w := newWorld(t, Options{})
	w.log.failWrites(&stream.Error{Op: "append", Kind: stream.ErrUnavailable, Err: errors.New("redis.internal")})
	require.Equal(t, 200, w.do("GET", "/readyz", "").StatusCode)
	require.Equal(t, 200, w.do("GET", "/readyz?log=0", "").StatusCode)
	a := w.do("GET", "/readyz?log=1", "")
	a.problem(t, 503, "log_unavailable")
	require.NotContains(t, a.body, "redis.internal")
}

// At most one probe a second, shared by all who ask.
// Holds G71.
func TestProbeIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hookedLog{Log: memlog.New(memlog.Options{})}
		broker := delivery.New(log, delivery.Options{})
		defer log.Close()
		defer broker.Close()
		p := &probe{log: log, broker: broker}

		var asked atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 100 {
					assert.NoError(t, p.check())
					asked.Add(1)
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 5000, asked.Load())
		require.Equal(t, 5, log.writes)
		require.Zero(t, broker.Stats().Subscriptions)

		require.NoError(t, p.check())
		log.failWrites(stream.ErrUnavailable)
		require.NoError(t, p.check(), "still fresh")
		time.Sleep(time.Second)
		require.ErrorIs(t, p.check(), stream.ErrUnavailable)
		log.failWrites(nil)
		require.ErrorIs(t, p.check(), stream.ErrUnavailable, "a failure is kept as long")
		time.Sleep(time.Second)
		require.NoError(t, p.check())
	})
}

// A server that appends and hears nothing is not ready, and the answer comes in
// bounded time.
// Holds G71.
func TestProbeNoticesADeafServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard, other := memlog.New(memlog.Options{}), memlog.New(memlog.Options{})
		broker := delivery.New(heard, delivery.Options{})
		defer other.Close()
		defer heard.Close()
		defer broker.Close()
		begun := time.Now()
		err := (&probe{log: other, broker: broker}).check()
		require.ErrorIs(t, err, stream.ErrUnavailable)
		require.ErrorContains(t, err, "did not come here")
		require.Equal(t, probeTimeout, time.Since(begun))
	})
}
