package client_test

import (
	"context"
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

// polls is a subscription by long-poll.
func polls(channels ...string) client.SubscribeOptions {
	return client.SubscribeOptions{Channels: channels, Transport: client.LongPoll}
}

// held is an answer that a server gives after a while.
func held(d time.Duration, a answer) answer {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return a(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// compact is the cursor of several channels as servers write it.
func compact(ids map[string]stream.ID) string {
	var names []string
	for name := range ids {
		names = append(names, name)
	}
	p := stream.NewPositions(names)
	for name, id := range ids {
		p.Set(name, id)
	}
	return p.String()
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{
			says(200, `{"messages":[],"gaps":[],"ended":[],"cursor":"100-1","state":"live","retry":700}`),
			held(10*time.Second, says(200, `{"messages":[{"channel":"news","id":"200-2","time":"2026-01-01T00:00:00.200Z","payload":"m2","event":"e","key":"k"},{"channel":"news","id":"300-3","time":"2026-01-01T00:00:00.300Z","payload":"m3"}],"gaps":[],"ended":[],"cursor":"300-3","state":"live","retry":700}`)),
			held(25*time.Second, says(200, `{"messages":[],"gaps":[],"ended":[],"cursor":"300-3","state":"stale","retry":700}`)),
			says(200, `{"messages":[],"gaps":[{"channel":"news","after":"300-3","next":null,"missed":2,"reason":"trimmed"}],"ended":[],"cursor":"500-5","state":"live","retry":700}`),
			says(200, `{"messages":[{"channel":"news","id":"900-9","time":"2026-01-01T00:00:00.900Z","payload":"m9"}],"gaps":[{"channel":"news","after":"500-5","next":"900-9","missed":3,"reason":"trimmed"}],"ended":[],"cursor":"900-9","state":"live","retry":700}`),
			cut,
			refuses(503, "log_unavailable"),
			says(200, `{"messages":[],"gaps":[],"ended":["news"],"cursor":"950-10","state":"live","retry":700}`),
		}}
		words, err := events(t.Context(), f.client(client.Options{}), polls("news"), 99)
		require.NoError(t, err)
		assert.Equal(t, []string{
			"ready @100-1", "live", "m2 @200-2", "m3 @300-3", "stale",
			"gap trimmed after 300-3 next 0-0 missed 2 @500-5", "live",
			"gap trimmed after 500-5 next 900-9 missed 3 @500-5", "m9 @900-9",
			"disconnected: http://127.0.0.1:8080: unexpected EOF", "disconnected: 503 log_unavailable: the detail",
			"ready @900-9", "end news 950-10 @950-10",
		}, words)
		var asked []string
		for _, r := range f.requests {
			assert.Equal(t, "/v1/poll", r.URL.Path)
			q := r.URL.Query()
			asked = append(asked, q.Get("lastEventId")+" "+q.Get("timeout"))
		}
		assert.Equal(t, []string{" 1s", "100-1 25s", "300-3 25s", "300-3 25s", "500-5 25s", "900-9 25s", "900-9 1s", "900-9 1s"}, asked)
		assert.Equal(t, 700*time.Millisecond, f.requests[6].at, "retry")
	})
}

// Each message of several channels has a cursor of its own, and each gap stands
// where it belongs.
func TestPollOfSeveralChannels(t *testing.T) {
	id := func(ms, n uint64) stream.ID { return stream.ID{MS: ms, N: n} }
	begin := compact(map[string]stream.ID{"a": id(100, 1), "b": id(100, 1), "c": id(1, 0)})
	end := compact(map[string]stream.ID{"a": id(700, 7), "b": id(300, 3), "c": id(800, 8)})
	message := func(channel, id, payload string) string {
		return `{"channel":"` + channel + `","id":"` + id + `","time":"2026-01-01T00:00:00.000Z","payload":"` + payload + `"}`
	}
	gap := func(channel, after, next, missed, reason string) string {
		return `{"channel":"` + channel + `","after":"` + after + `","next":` + next + `,"missed":` + missed + `,"reason":"` + reason + `"}`
	}
	f := &fake{t: t, answers: []answer{
		says(200, `{"messages":[`+strings.Join([]string{message("a", "200-2", "a2"), message("b", "300-3", "b3"), message("a", "500-5", "a5"), message("a", "700-7", "a7")}, ",")+
			`],"gaps":[`+strings.Join([]string{
			gap("a", "200-2", `"500-5"`, "2", "trimmed"), gap("c", "1-0", "null", "8", "trimmed"), gap("a", "500-5", "null", "1", "trimmed")}, ",")+
			`],"ended":["c"],"cursor":"`+end+`","state":"live","retry":10}`),
		refuses(403, "forbidden"),
	}}
	o := polls("c", "a", "b")
	o.After = begin
	var got []client.Event
	err := read(t.Context(), f.client(client.Options{}), o, func(e client.Event) bool {
		got = append(got, e)
		return true
	})
	require.Error(t, err)
	var words []string
	for _, e := range got {
		words = append(words, word(e))
	}
	at := func(a, b, c stream.ID) string {
		return " @" + compact(map[string]stream.ID{"a": a, "b": b, "c": c})
	}
	assert.Equal(t, []string{
		"ready" + at(id(100, 1), id(100, 1), id(1, 0)),
		"a2" + at(id(200, 2), id(100, 1), id(1, 0)),
		"b3" + at(id(200, 2), id(300, 3), id(1, 0)),
		"gap trimmed after 200-2 next 500-5 missed 2" + at(id(200, 2), id(300, 3), id(1, 0)),
		"a5" + at(id(500, 5), id(300, 3), id(1, 0)),
		"gap trimmed after 500-5 next 0-0 missed 1" + at(id(500, 5), id(300, 3), id(1, 0)),
		"a7" + at(id(700, 7), id(300, 3), id(1, 0)),
		"gap trimmed after 1-0 next 0-0 missed 8" + at(id(700, 7), id(300, 3), id(800, 8)),
		"end c 800-8" + at(id(700, 7), id(300, 3), id(800, 8)),
		"live",
	}, words)
	assert.Equal(t, end, f.requests[1].URL.Query().Get("lastEventId"))
}

// Until a channel has shown where it is, the cursor leaves it out, so that it
// starts the same way again.
func TestPollWithoutACursor(t *testing.T) {
	end := compact(map[string]stream.ID{"a": {MS: 200, N: 2}, "b": {MS: 300, N: 3}})
	f := &fake{t: t, answers: []answer{
		says(200, `{"messages":[{"channel":"a","id":"200-2","time":"2026-01-01T00:00:00.200Z","payload":"a2"},{"channel":"b","id":"300-3","time":"2026-01-01T00:00:00.300Z","payload":"b3"}],"gaps":[],"ended":[],"cursor":"`+end+`","state":"live","retry":10}`),
	}}
	o := polls("a", "b")
	o.Rewind = 1
	words, err := events(t.Context(), f.client(client.Options{}), o, 3)
	require.NoError(t, err)
	require.Equal(t, "ready @", words[0])
	cursor, ok := strings.CutPrefix(words[1], "a2 @")
	require.True(t, ok)
	c, err := stream.ParseCursor(cursor)
	require.NoError(t, err)
	_, knowsB := c.Position("b")
	pos, knowsA := c.Position("a")
	assert.Equal(t, []any{true, false, stream.ID{MS: 200, N: 2}}, []any{knowsA, knowsB, pos})
	assert.Equal(t, "b3 @"+end, words[2])
}

// A poll that is not answered in its time is given up; one that is answered for
// the server, by a cache, is not asked in a loop.
func TestPollIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{hangs, says(200, `{"messages":[],"gaps":[],"ended":[],"cursor":"100-1","state":"live","retry":700}`)}}
		begun := time.Now()
		o := polls("news")
		o.After, o.Heartbeat = "100-1", 5*time.Second
		n := 0
		require.NoError(t, read(t.Context(), f.client(client.Options{}), o, func(e client.Event) bool {
			if e, ok := e.(client.Disconnected); ok {
				assert.ErrorContains(t, e.Err, "the server does not answer")
				assert.Equal(t, 11*time.Second, time.Since(begun)) // a second, and Timeout
			}
			n++
			return n < 3
		}))
		before := len(f.asked())
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
		defer cancel()
		require.NoError(t, read(ctx, f.client(client.Options{}), o, func(client.Event) bool { return true }))
		assert.LessOrEqual(t, len(f.asked())-before, 101)
	})
}

func TestPollOfWhatIsNoRejoin(t *testing.T) {
	for _, body := range []string{
		"<html>", `{"messages":[]}`, `{"messages":[{"channel":"olds","id":"1-1","time":"2026-01-01T00:00:00Z","payload":""}],"cursor":"1-1"}`,
		`{"gaps":[{"channel":"olds","after":"1-1"}],"cursor":"1-1"}`, `{"ended":["olds"],"cursor":"1-1"}`,
		`{"messages":"` + strings.Repeat("x", 3<<20) + `"}`,
	} {
		f := &fake{t: t, answers: []answer{says(200, body)}}
		_, err := events(t.Context(), f.client(client.Options{MaxMessageBytes: 1000}), polls("news"), 99)
		require.ErrorIs(t, err, client.ErrProtocol)
		assert.Len(t, f.requests, 1)
	}
}
