package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// Holds G85.
func TestEndOfAChannel(t *testing.T) {
	w := newWorld(t, Options{})
	last := w.publish("a", "last")
	_, in := w.events("channel=a")
	until(t, in, "event: rejoin.ready")

	first := w.do("POST", "/v1/channels/a/end", "")
	require.Equal(t, 201, first.StatusCode)
	var p published
	require.NoError(t, json.Unmarshal([]byte(first.body), &p))
	require.Equal(t, `{"id":"`+p.ID.String()+`","channel":"a"}`+"\n", first.body)
	require.Equal(t, last.N+1, p.ID.N, "an entry of its own")
	require.Equal(t, p.ID.String(), until(t, in, "id: "))
	require.Equal(t, "rejoin.end", until(t, in, "event: "))

	again := w.do("POST", "/v1/channels/a/end", "ignored")
	require.Equal(t, 200, again.StatusCode)
	require.Equal(t, first.body, again.body)
	w.do("POST", "/v1/channels/a/messages", "x").problem(t, 409, "channel_ended")
	w.do("POST", "/v1/channels/a/messages?end=true", "x").problem(t, 409, "channel_ended")
	require.Equal(t, []string{"channel_ended"}, errorCodes(w.many(`{"channels":["a"],"payload":"x"}`)))
	b, err := w.log.Bounds(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, p.ID, b.Last, "nothing was appended")

	// A browser that comes back at the end is stopped for good.
	require.Equal(t, 204, w.do("GET", "/v1/sse?channel=a", "", "Last-Event-ID", p.ID.String()).StatusCode)
	poll := w.do("GET", "/v1/poll?channel=a&lastEventId="+last.String(), "")
	require.Contains(t, poll.body, `"ended":["a"]`)
}

// Holds G85.
func TestEndWithAMessage(t *testing.T) {
	w := newWorld(t, Options{})
	const path = "/v1/channels/a/messages?end=true"
	first := w.do("POST", path, "bye", "Idempotency-Key", "i")
	require.Equal(t, 201, first.StatusCode)
	again := w.do("POST", path, "bye", "Idempotency-Key", "i")
	require.Equal(t, 201, again.StatusCode, "a repeat is answered as the first was")
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	w.do("POST", "/v1/channels/a/messages", "bye", "Idempotency-Key", "i").problem(t, 422, "idempotency_conflict")
	w.do("POST", path, "x").problem(t, 409, "channel_ended")
	end := w.do("POST", "/v1/channels/a/end", "")
	require.Equal(t, 200, end.StatusCode)
	require.Equal(t, first.body, end.body)
	require.Equal(t, "bye", w.history("a", "").payloads())
	require.Equal(t, 201, w.do("POST", "/v1/channels/b/messages?end=false", "x").StatusCode)
	require.Equal(t, 201, w.do("POST", "/v1/channels/b/messages", "x").StatusCode, "not ended")
}

// Holds G87.
func TestOneMessage(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.do("POST", "/v1/channels/a:b/messages?event=e&key=k", "hi\n")
	w.publish("a:b", "next")
	location := a.Header.Get("Location")
	got := w.do("GET", location, "")
	require.Equal(t, 200, got.StatusCode, got.body)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	p := w.history("a:b", "")
	var m struct{ Channel, ID, Time, Payload, Event, Key string }
	require.NoError(t, json.Unmarshal([]byte(got.body), &m))
	require.EqualValues(t, p.Messages[0], m)
	require.Equal(t, "hi\n", m.Payload)
	require.Equal(t, got.body, w.do("GET", "/v1/channels/a%3Ab/messages/"+strings.Replace(m.ID, "-", "%2D", 1), "").body, "unescaped once")

	end := w.do("POST", "/v1/channels/a:b/end", "")
	var ended published
	require.NoError(t, json.Unmarshal([]byte(end.body), &ended))
	id, err := stream.ParseID(m.ID)
	require.NoError(t, err)
	for _, none := range []string{
		ended.ID.String(), // an entry, but no message
		stream.ID{MS: id.MS, N: 99}.String(), stream.ID{MS: id.MS - 1, N: 1}.String(), stream.ID{MS: id.MS, N: 0}.String(),
		"0-0", "1-0", stream.MaxID.String(), "x", "1", "1-", "-1", "1-1-1", "%252D", m.ID + "%20", "%2F",
	} {
		w.do("GET", "/v1/channels/a:b/messages/"+none, "").problem(t, 404, "not_found")
	}
	w.do("GET", "/v1/channels/other/messages/"+m.ID, "").problem(t, 404, "not_found")
	w.do("POST", location, "x").problem(t, 405, "method_not_allowed")
	require.NoError(t, w.log.Delete(t.Context(), "a:b"))
	w.do("GET", location, "").problem(t, 404, "not_found")
}

// Holds G89.
func TestInfo(t *testing.T) {
	w := newWorld(t, Options{})
	require.Equal(t, `{"channel":"a:b","first":null,"last":null,"length":0,"subscribers":0}`+"\n", w.do("GET", "/v1/channels/a%3Ab", "").body)
	first := w.publish("a:b", "1")
	last := w.publish("a:b", "2")
	resp, in := w.events("channel=a:b")
	until(t, in, "event: rejoin.ready")
	info := fmt.Sprintf(`{"channel":"a:b","first":"%s","last":"%s","length":2,"subscribers":1}`+"\n", first, last)
	got := w.do("GET", "/v1/channels/a:b", "")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, info, got.body)
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	require.NoError(t, resp.Body.Close())
}

// The messages go, the counter stays, and who is behind the end is told the gap.
func TestDelete(t *testing.T) {
	w := newWorld(t, Options{})
	require.Equal(t, 204, w.do("DELETE", "/v1/channels/never", "").StatusCode)
	first := w.publish("a", "1")
	w.publish("a", "2")
	last := w.publish("a", "3")
	a := w.do("DELETE", "/v1/channels/%61", "")
	require.Equal(t, 204, a.StatusCode)
	require.Empty(t, a.body)
	require.Contains(t, w.do("GET", "/v1/channels/a", "").body, fmt.Sprintf(`"first":null,"last":"%s","length":0`, last))
	p := w.history("a", "after="+first.String())
	require.Equal(t, "trimmed", p.Gap.Reason)
	require.Equal(t, uint64(2), *p.Gap.Missed)
	require.Nil(t, w.history("a", "after="+last.String()).Gap)
	require.Equal(t, last.N+1, w.publish("a", "4").N)
	w.do("DELETE", "/v1/channels/a%2Fb", "").problem(t, 400, "bad_request")
	w.do("DELETE", "/v1/channels", "").problem(t, 405, "method_not_allowed")
	require.Equal(t, "GET, DELETE", w.do("POST", "/v1/channels/a", "").Header.Get("Allow"))
}

// Every route of a channel says what the log says of its failures.
func TestChannelRoutesAndTheLogsFailures(t *testing.T) {
	w := newWorld(t, Options{})
	err := &stream.Error{Op: "x", Kind: stream.ErrUnavailable, Err: errors.New("redis.internal")}
	w.log.failWrites(err)
	w.log.mu.Lock()
	w.log.onRead = func(stream.Query) (stream.Page, error) { return stream.Page{}, err }
	w.log.onOther = err
	w.log.mu.Unlock()
	for _, route := range []string{
		"POST /v1/channels/a/end", "GET /v1/channels/a", "GET /v1/channels", "DELETE /v1/channels/a",
		"GET /v1/channels/a/messages/1-1", "GET /v1/channels/a/messages?order=desc", "GET /v1/channels/a/messages?before=5-5&after=1-1",
	} {
		method, path, _ := strings.Cut(route, " ")
		a := w.do(method, path, "")
		a.problem(t, 503, "log_unavailable")
		require.Equal(t, "1", a.Header.Get("Retry-After"))
		require.NotContains(t, a.body, "redis.internal")
	}
}

// listed reads the whole list and returns it as "name:subscribers".
func (w *world) listed(query string) (all []string, pages int) {
	w.t.Helper()
	cursor := ""
	for {
		path := "/v1/channels?" + query
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		a := w.do("GET", path, "")
		require.Equal(w.t, 200, a.StatusCode, a.body)
		var p struct {
			Channels []struct {
				Channel     string
				Subscribers int
			}
			Cursor *string
		}
		require.NoError(w.t, json.Unmarshal([]byte(a.body), &p))
		require.Contains(w.t, a.body, `"channels":[`)
		for _, c := range p.Channels {
			all = append(all, fmt.Sprintf("%s:%d", c.Channel, c.Subscribers))
		}
		if pages++; p.Cursor == nil {
			return all, pages
		}
		cursor = *p.Cursor
		require.Less(w.t, pages, 100)
	}
}

// Channels with readers here, then those with messages; each once.
// Holds G90.
func TestListOfChannels(t *testing.T) {
	w := newWorld(t, Options{})
	all, _ := w.listed("")
	require.Empty(t, all)
	for _, name := range []string{"news.uk", "news.fr", "orders", "gone", "z=+@~"} {
		w.publish(name, "x")
	}
	require.NoError(t, w.log.Delete(t.Context(), "gone"))
	_, in := w.events("channel=orders&channel=news.de&format=json")
	until(t, in, "event: rejoin.ready")
	_, in = w.events("channel=orders")
	until(t, in, "event: rejoin.ready")

	want := []string{"news.de:1", "orders:2", "news.fr:0", "news.uk:0", "z=+@~:0"}
	for limit, pages := range map[int]int{1: 5, 2: 3, 3: 2, 4: 2, 5: 1, 1000: 1} {
		got, n := w.listed(fmt.Sprint("limit=", limit))
		require.Equal(t, want, got, "by %d", limit)
		require.LessOrEqual(t, n, pages+1, "by %d", limit)
	}
	got, _ := w.listed("match=news.*")
	require.Equal(t, []string{"news.de:1", "news.fr:0", "news.uk:0"}, got)
	got, _ = w.listed("match=nothing.**")
	require.Empty(t, got)
}

// What another server began is gone on with; its readers are not ours.
func TestListGoesOnOnAnotherServer(t *testing.T) {
	w := newWorld(t, Options{})
	for _, name := range []string{"a", "b", "c"} {
		w.publish(name, "x")
	}
	_, in := w.events("channel=b")
	until(t, in, "event: rejoin.ready")
	elsewhere := listPlace{server: 1, inLog: true, begun: w.api.started.AddDate(1, 0, 0)}
	a := w.do("GET", "/v1/channels?cursor="+elsewhere.String(), "")
	require.Equal(t, `{"channels":[{"channel":"a","subscribers":0},{"channel":"b","subscribers":1},{"channel":"c","subscribers":0}],"cursor":null}`+"\n", a.body)
}

// Answers to HEAD and to a page of another origin are as for the rest.
func TestChannelRoutesAcrossOrigins(t *testing.T) {
	w := newWorld(t, Options{Origins: []string{page1}})
	for _, path := range []string{"/v1/channels", "/v1/channels/a", "/v1/channels/a/messages/1-1", "/v1/poll", "/v1/ws"} {
		a := w.do("GET", path, "", "Origin", page1)
		require.Equal(t, page1, a.Header.Get("Access-Control-Allow-Origin"), path)
	}
	require.Equal(t, http.StatusNoContent, w.do("DELETE", "/v1/channels/a", "", "Origin", page1).StatusCode)
}
