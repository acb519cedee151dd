package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/client"
	"rejoin/stream"
)

var news = client.SubscribeOptions{Channels: []string{"news"}}

// read runs a subscription until it is over, left by take, or failed.
func read(ctx context.Context, c *client.Client, o client.SubscribeOptions, take func(client.Event) (goOn bool)) (last error) {
	for event, err := range c.Subscribe(ctx, o) {
		if err != nil {
			last = err
			continue
		}
		if !take(event) {
			return nil
		}
	}
	return last
}

// events is what comes until there are n, in short words.
func events(ctx context.Context, c *client.Client, o client.SubscribeOptions, n int) (words []string, err error) {
	err = read(ctx, c, o, func(e client.Event) bool {
		words = append(words, word(e))
		return len(words) < n
	})
	return words, err
}

func word(e client.Event) string {
	switch e := e.(type) {
	case client.Message:
		return e.Payload + " @" + e.Cursor()
	case client.Ready:
		return "ready @" + e.Cursor()
	case client.Gap:
		return fmt.Sprintf("gap %s after %v next %v missed %d @%s", e.Reason, e.After, e.Next, e.Missed, e.Cursor())
	case client.State:
		return string(e.Name)
	case client.Move:
		return "move " + e.Within.String()
	case client.End:
		return "end " + e.Channel + " " + e.ID.String() + " @" + e.Cursor()
	case client.Disconnected:
		return "disconnected: " + e.Err.Error()
	}
	return fmt.Sprintf("%T", e)
}

func TestSubscribeYieldsWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{sends(
			retryLine, readyFrame,
			"event: rejoin.state\ndata: {\"state\":\"replaying\",\"since\":\"2026-01-01T00:00:00.000Z\"}\n\n",
			messageFrame(2),
			":\n",
			"id: 300-3\nevent: rain\ndata: {\"channel\":\"news\",\"id\":\"300-3\",\"time\":\"2026-01-01T00:00:00.300Z\",\"payload\":\"a\\nb\",\"event\":\"rain\",\"key\":\"k\",\"later\":1}\n\n",
			"event: rejoin.novelty\ndata: {}\n\n",
			"id: 300-3\nevent: rejoin.gap\ndata: {\"channel\":\"news\",\"after\":\"300-3\",\"next\":\"900-9\",\"missed\":5,\"reason\":\"trimmed\"}\n\n",
			"id: 0-0\r\nevent: rejoin.gap\r\ndata: {\"channel\":\"news\",\"after\":\"900-9\",\r\ndata: \"next\":null,\"missed\":null,\"reason\":\"reset\"}\r\n\r\n",
			liveFrame,
			endFrame,
		)}}
		var got []client.Event
		require.NoError(t, read(t.Context(), f.client(client.Options{Token: "t"}), news, func(e client.Event) bool {
			got = append(got, e)
			return true
		}))
		require.Len(t, got, 8)
		assert.Equal(t, map[string]client.ReadyChannel{"news": {Cursor: stream.ID{MS: 100, N: 1}, Replay: 2}}, got[0].(client.Ready).Channels)
		m := got[3].(client.Message)
		assert.Equal(t, []any{"news", "300-3", "a\nb", "rain", "k", "300-3", time.UnixMilli(1767225600300).UTC()},
			[]any{m.Channel, m.ID.String(), m.Payload, m.Event, m.Key, m.Cursor(), m.Time})
		var words []string
		for _, e := range got {
			words = append(words, word(e))
		}
		assert.Equal(t, []string{
			"ready @100-1", "replaying", "m2 @200-2", "a\nb @300-3",
			"gap trimmed after 300-3 next 900-9 missed 5 @300-3", "gap reset after 900-9 next 0-0 missed 0 @0-0",
			"live", "end news 400-4 @400-4",
		}, words)
		r := f.requests[0]
		assert.Equal(t, "/v1/sse", r.URL.Path)
		assert.Equal(t, "channel=news&format=json&heartbeat=15s", r.URL.RawQuery)
		assert.Equal(t, "Bearer t", r.Header.Get("Authorization"))
		assert.Equal(t, "identity", r.Header.Get("Accept-Encoding"))
	})
}

// A break costs nothing: the next connection goes on behind what was yielded,
// after the time the server asked for. A torn event is none, and its id counts
// for nothing.
func TestSubscribeResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{
			sends(retryLine, readyFrame, messageFrame(2), strings.TrimSuffix(messageFrame(3), "\n")),
			sends(retryLine, "id: 200-2\nevent: rejoin.ready\ndata: {\"channels\":{\"news\":{\"cursor\":\"200-2\",\"replay\":1}},\"cursor\":\"200-2\"}\n\n", messageFrame(3)),
			sends(endFrame),
		}}
		words, err := events(t.Context(), f.client(client.Options{}), news, 99)
		require.NoError(t, err)
		assert.Equal(t, []string{
			"ready @100-1", "m2 @200-2", "disconnected: connection reset by peer",
			"ready @200-2", "m3 @300-3", "disconnected: connection reset by peer",
			"end news 400-4 @400-4",
		}, words)
		var cursors []string
		for i, r := range f.requests {
			cursors = append(cursors, r.URL.Query().Get("lastEventId"))
			if i > 0 {
				assert.Equal(t, 1500*time.Millisecond, r.at)
			}
		}
		assert.Equal(t, []string{"", "200-2", "300-3"}, cursors)
	})
}

// Whatever refuses a connection for now is tried again: at each server in turn,
// then after a wait that grows, at random, and is never below what was asked.
func TestSubscribeThroughAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{
			refused, refuses(503, "log_unavailable", "Retry-After", "20"),
			refuses(504, "unknown_outcome"), says(502, "<html>"),
			hangs, refuses(429, "too_many"),
			sends("retry: 30000\n\n", "event: rejoin.error\ndata: {\"status\":429,\"code\":\"too_many\",\"detail\":\"full\"}\n\n"), refused,
			sends(retryLine, readyFrame), refused, refused,
			sends(readyFrame, endFrame),
		}}
		c := f.client(client.Options{URLs: []string{"http://one", "http://two"}})
		words, err := events(t.Context(), c, news, 99)
		require.NoError(t, err)
		assert.Len(t, words, 14)
		for i, bounds := range [][2]time.Duration{
			{},
			{0, 0}, {20 * time.Second, 20500 * time.Millisecond},
			{0, 0}, {0, time.Second},
			{10 * time.Second, 10 * time.Second}, // Timeout, inside of which the second is asked
			{0, 2 * time.Second},
			{0, 0}, {30 * time.Second, 34 * time.Second},
			{1500 * time.Millisecond, 1500 * time.Millisecond},
			{0, 0}, {0, 500 * time.Millisecond},
		} {
			r := f.requests[i]
			assert.Equal(t, []string{"one", "two"}[i%2], r.URL.Host)
			assert.GreaterOrEqual(t, r.at, bounds[0], "request %d", i)
			assert.LessOrEqual(t, r.at, bounds[1], "request %d", i)
		}
	})
}

func TestBackoffIsBoundedAndRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{refused}}
		c := f.client(client.Options{})
		var waits []time.Duration
		require.NoError(t, read(t.Context(), c, news, func(e client.Event) bool {
			waits = append(waits, e.(client.Disconnected).Wait)
			return len(waits) < 40
		}))
		long, short := 0, 0
		for _, w := range waits {
			require.Less(t, w, 10*time.Second)
			if w > 5*time.Second {
				long++
			}
			if w < 2*time.Second {
				short++
			}
		}
		assert.Positive(t, long)
		assert.Positive(t, short)
	})
}

// A connection on which nothing comes for twice the heartbeat is given up; signs
// of life keep it.
func TestSubscribeNoticesSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		f := &fake{t: t, answers: []answer{
			streams(func(ctx context.Context, w io.Writer) {
				_, _ = io.WriteString(w, retryLine+readyFrame)
				for range 10 {
					time.Sleep(9 * time.Second)
					_, _ = io.WriteString(w, ":\n")
				}
				<-ctx.Done()
			}),
			sends(endFrame),
		}}
		o := news
		o.Heartbeat = 5 * time.Second
		words, err := events(t.Context(), f.client(client.Options{}), o, 99)
		require.NoError(t, err)
		assert.Equal(t, []string{"ready @100-1", "disconnected: client: the server does not answer", "end news 400-4 @400-4"}, words)
		assert.Equal(t, 90*time.Second+2*o.Heartbeat+1500*time.Millisecond, time.Since(begun))
	})
}

// The time the loop's body takes is not the server's silence.
func TestSubscribeASlowLoopIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{sends(readyFrame, messageFrame(2), messageFrame(3), endFrame)}}
		n := 0
		require.NoError(t, read(t.Context(), f.client(client.Options{}), news, func(e client.Event) bool {
			time.Sleep(time.Hour)
			n++
			return true
		}))
		assert.Equal(t, 4, n)
		assert.Len(t, f.requests, 1)
	})
}

// Told to move, it leaves at a random moment within the time and comes back at
// once, elsewhere, with its cursor.
func TestSubscribeMoves(t *testing.T) {
	moments := map[time.Duration]bool{}
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{t: t, answers: []answer{
				stays(retryLine, readyFrame, messageFrame(2), "event: rejoin.move\ndata: {\"within\":4000}\n\n", messageFrame(3)),
				sends(endFrame),
			}}
			c := f.client(client.Options{URLs: []string{"http://one", "http://two"}})
			words, err := events(t.Context(), c, news, 99)
			require.NoError(t, err)
			assert.Equal(t, []string{"ready @100-1", "m2 @200-2", "move 4s", "m3 @300-3", "end news 400-4 @400-4"}, words)
			again := f.requests[1]
			assert.Equal(t, "two", again.URL.Host)
			assert.Equal(t, "300-3", again.URL.Query().Get("lastEventId"))
			assert.Less(t, again.at, 4*time.Second)
			moments[again.at] = true
		})
	}
	assert.Greater(t, len(moments), 5)
}

// A server that is all but gone, and says so to whoever comes, is not asked in a
// loop.
func TestSubscribeMovesInNoCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{stays(retryLine, readyFrame, "event: rejoin.move\ndata: {\"within\":0}\n\n")}}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		require.NoError(t, read(ctx, f.client(client.Options{}), news, func(client.Event) bool { return true }))
		n := len(f.asked()) // one each retry
		assert.True(t, 19 <= n && n <= 21, "%d", n)
	})
}

// What is for good ends the subscription with the server's own words.
func TestSubscribeRefused(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 410} {
		f := &fake{t: t, answers: []answer{refuses(status, "a_code")}}
		words, err := events(t.Context(), f.client(client.Options{}), news, 99)
		assert.Equal(t, &client.Error{Status: status, Code: "a_code", Detail: "the detail"}, err)
		assert.Empty(t, words)
		assert.Len(t, f.requests, 1)
	}
	f := &fake{t: t, answers: []answer{sends(readyFrame, "event: rejoin.error\ndata: {\"status\":500,\"code\":\"log_broken\",\"detail\":\"d\"}\n\n")}}
	_, err := events(t.Context(), f.client(client.Options{}), news, 99)
	assert.Equal(t, &client.Error{Status: 500, Code: "log_broken", Detail: "d"}, err)
}

func TestSubscribeToWhatIsNoRejoin(t *testing.T) {
	for name, a := range map[string]answer{
		"a page":               says(200, "<html>", "Content-Type", "text/html"),
		"no JSON":              sends(readyFrame, "id: 200-2\ndata: hello\n\n"),
		"another channel":      sends(readyFrame, "id: 200-2\ndata: {\"channel\":\"olds\",\"id\":\"200-2\",\"time\":\"2026-01-01T00:00:00Z\",\"payload\":\"\"}\n\n"),
		"a message too large":  sends(readyFrame, "data: ", strings.Repeat("x", 50_000), "\n\n"),
		"a message of lines":   sends(readyFrame, strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 50)),
		"a field name of 50 K": sends(strings.Repeat("x", 50_000)),
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{t: t, answers: []answer{a}}
			_, err := events(t.Context(), f.client(client.Options{MaxMessageBytes: 30_000}), news, 99)
			assert.ErrorIs(t, err, client.ErrProtocol, name)
			assert.Len(t, f.requests, 1)
		})
	}
}

// A token that runs out ends a subscription that has no other, and costs one
// that has nothing.
func TestSubscribeExpired(t *testing.T) {
	expired := "event: rejoin.expired\ndata: {}\n\n"
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{sends(readyFrame, expired), sends(endFrame)}}
		words, err := events(t.Context(), f.client(client.Options{Token: "a"}), news, 99)
		said, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, client.CodeUnauthorized, said.Code)
		assert.Equal(t, []string{"ready @100-1"}, words)
	})
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{sends(readyFrame, messageFrame(2), expired), sends(endFrame)}}
		n := 0
		c := f.client(client.Options{TokenFunc: func(context.Context) (string, error) {
			n++
			return fmt.Sprint("token", n), nil
		}})
		words, err := events(t.Context(), c, news, 99)
		require.NoError(t, err)
		assert.Equal(t, []string{"ready @100-1", "m2 @200-2", "disconnected: client: the token has run out", "end news 400-4 @400-4"}, words)
		assert.Equal(t, "Bearer token2", f.requests[1].Header.Get("Authorization"))
		assert.Equal(t, "200-2", f.requests[1].URL.Query().Get("lastEventId"))
	})
}

// The end of a channel is told once, however often the connection breaks behind
// it; with that of the last one the loop is over.
func TestSubscribeEnds(t *testing.T) {
	end := func(channel, id string) string {
		return fmt.Sprintf("id: 1~1.1.1\nevent: rejoin.end\ndata: {\"channel\":%q,\"id\":%q}\n\n", channel, id)
	}
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{
			sends(end("a", "1-1")), sends(end("a", "1-1"), end("b", "2-2"), end("a", "1-1")), refused,
		}}
		words, err := events(t.Context(), f.client(client.Options{}), client.SubscribeOptions{Channels: []string{"a", "b", "a"}}, 99)
		require.NoError(t, err)
		assert.Equal(t, []string{"end a 1-1 @1~1.1.1", "disconnected: connection reset by peer", "end b 2-2 @1~1.1.1"}, words)
		assert.Equal(t, []string{"a", "b"}, f.requests[0].URL.Query()["channel"])
	})
	f := &fake{t: t, answers: []answer{says(204, "")}}
	o := news
	o.After = "400-4"
	words, err := events(t.Context(), f.client(client.Options{}), o, 99)
	require.NoError(t, err)
	assert.Equal(t, []string{"end news 400-4 @400-4"}, words)
}

func TestSubscribeEndsWithItsContextOrItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, a := range []answer{stays(retryLine, readyFrame), hangs, refused, sends(retryLine, readyFrame)} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			f := &fake{t: t, answers: []answer{a}}
			begun := time.Now()
			require.NoError(t, read(ctx, f.client(client.Options{}), news, func(client.Event) bool { return true }))
			assert.Equal(t, 20*time.Second, time.Since(begun))
			cancel()
		}
		f := &fake{t: t, answers: []answer{stays(retryLine, readyFrame, messageFrame(2), messageFrame(3))}}
		words, err := events(t.Context(), f.client(client.Options{}), news, 2)
		require.NoError(t, err)
		assert.Equal(t, []string{"ready @100-1", "m2 @200-2"}, words)
		synctest.Wait()
		assert.Error(t, f.requests[0].Context().Err(), "the connection is closed")
	})
}

func TestSubscribeStarts(t *testing.T) {
	at := time.UnixMilli(1764530000123)
	for want, o := range map[string]client.SubscribeOptions{
		"lastEventId=5-5":      {After: "5-5"},
		"lastEventId=earliest": {After: client.Earliest},
		"rewind=7":             {Rewind: 7},
		"since=1764530000123":  {Since: at},
		"since=10m0s":          {SinceAgo: 10 * time.Minute},
		"lastEventId=5-5&since=10m0s": {
			After: "5-5", SinceAgo: 10 * time.Minute},
	} {
		o.Channels = news.Channels
		f := &fake{t: t, answers: []answer{says(204, "")}}
		_, err := events(t.Context(), f.client(client.Options{}), o, 99)
		require.NoError(t, err)
		got := f.requests[0].URL.Query()
		for _, name := range []string{"channel", "format", "heartbeat"} {
			got.Del(name)
		}
		assert.Equal(t, want, got.Encode())
	}
	for want, o := range map[string]client.SubscribeOptions{
		"at least one channel": {},
		"not a channel name":   {Channels: []string{"a b"}},
		"at most one of them":  {Channels: []string{"a"}, Rewind: 1, Since: at},
		"none below 0":         {Channels: []string{"a"}, Rewind: -1},
		"not a cursor":         {Channels: []string{"a"}, After: "yesterday"},
		"says nothing about":   {Channels: []string{"a", "b"}, After: "5-5"},
		"want 5s to 2m":        {Channels: []string{"a"}, Heartbeat: time.Second},
		"is no transport":      {Channels: []string{"a"}, Transport: 9},
	} {
		f := &fake{t: t, answers: []answer{refused}}
		words, err := events(t.Context(), f.client(client.Options{}), o, 99)
		require.ErrorContains(t, err, want)
		assert.Empty(t, words)
		assert.Empty(t, f.requests)
	}
}

// One loop's fault is its own.
func TestSubscriptionsDoNotEndEachOther(t *testing.T) {
	s := newServer(t)
	c := newClient(t, client.Options{URL: s.url()})
	ctx := within(t, patience)
	ready, got := make(chan struct{}), make(chan error, 1)
	go func() {
		for event, err := range c.Subscribe(ctx, news) {
			switch e := event.(type) {
			case client.Ready:
				close(ready)
			case client.Message:
				if e.Payload != "hi" {
					err = fmt.Errorf("got %q", e.Payload)
				}
				got <- err
				return
			}
		}
		got <- errors.New("it is over")
	}()
	<-ready
	for _, err := range c.Subscribe(ctx, client.SubscribeOptions{Channels: news.Channels, Rewind: 9_999_999}) {
		said, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, http.StatusBadRequest, said.Status)
	}
	_, err := c.Publish(ctx, "news", "hi", nil)
	require.NoError(t, err)
	require.NoError(t, <-got)
}
