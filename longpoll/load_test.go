package longpoll

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A poll that dies after a message was taken loses nothing: what it had is
// behind its cursor.
// Holds G108.
func TestAbortLosesNothing(t *testing.T) {
	const clients = 8
	rounds := 5000 / clients
	if testing.Short() {
		rounds /= 10
	}
	w := newWorld(t, Options{}, keep(1000))
	var died, answered atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			query := fmt.Sprint("channel=c", i)
			cursor := w.poll(query, "").Cursor
			for n := range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/?"+query, nil)
				if err != nil {
					cancel()
					t.Error(err)
					return
				}
				r.Header.Set("Last-Event-ID", cursor)
				over := make(chan struct{})
				go func() {
					defer close(over)
					if resp, err := w.client.Do(r); err == nil {
						_ = resp.Body.Close()
						answered.Add(1) // and lost on the client's side
					} else {
						died.Add(1)
					}
				}()
				time.Sleep(time.Duration(n%7) * 100 * time.Microsecond) // it is parked, or on its way
				payload := strconv.Itoa(n)
				w.publish(query[len("channel="):], payload)
				time.Sleep(time.Duration(n%31) * 100 * time.Microsecond)
				cancel()
				<-over
				a := w.poll(query, cursor)
				if !assert.Equal(t, payload, a.payloads()) || !assert.Empty(t, a.Gaps) {
					return
				}
				cursor = a.Cursor
			}
		})
	}
	wg.Wait()
	t.Logf("%d polls died, %d were answered first", died.Load(), answered.Load())
	require.Positive(t, died.Load())
	require.Positive(t, answered.Load())
}

// Polls parked at the end of a channel ask the log for nothing, however many
// they are and however often they come back.
// Holds G111.
func TestParkedPollsAskNothing(t *testing.T) {
	bubble(t, keep(1000), func(t *testing.T, w *world) {
		const polls = 10_000
		at := w.publish("a", "1").String()
		w.poll("channel=a&timeout=1s", at) // the tail is read once
		warm := w.log.readsSoFar()
		bodies := make(chan string, polls)
		parkAll := func() {
			for range polls {
				go func() {
					rec := httptest.NewRecorder()
					w.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/?channel=a&lastEventId="+at, nil))
					bodies <- rec.Body.String()
				}()
			}
			synctest.Wait()
			require.Equal(t, polls, w.broker.Stats().Subscriptions)
		}
		for range 3 {
			began := time.Now()
			parkAll()
			for range polls {
				require.True(t, strings.HasPrefix(<-bodies, `{"messages":[],`))
			}
			require.Equal(t, 25*time.Second, time.Since(began))
		}
		require.Equal(t, warm, w.log.readsSoFar())

		parkAll()
		w.publish("a", "2")
		synctest.Wait()
		require.Zero(t, w.broker.Stats().Subscriptions)
		require.Equal(t, warm+1, w.log.readsSoFar(), "one read of the log is for all")
		for range polls {
			require.Contains(t, <-bodies, `"payload":"2"`)
		}
	})
}
