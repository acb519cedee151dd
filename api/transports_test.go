package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// A poll takes what the others take, and its errors come in the form it asks for.
// Holds G94.
func TestPoll(t *testing.T) {
	w := newWorld(t, Options{Origins: []string{page1}})
	first := w.do("GET", "/v1/poll?channel=a:b", "", "Origin", page1)
	require.Equal(t, 200, first.StatusCode)
	require.Equal(t, "1-0", first.Header.Get("Last-Event-ID"))
	require.Equal(t, page1, first.Header.Get("Access-Control-Allow-Origin"))
	id := w.publish("a:b", "hi").String()
	for _, path := range []string{"/v1/poll?channel=a:b&lastEventId=1-0", "/v1/poll?channel=a%3Ab&Last-Event-ID=1-0"} {
		a := w.do("GET", path, "")
		require.Contains(t, a.body, `"payload":"hi"`)
		require.Equal(t, id, a.Header.Get("Last-Event-ID"))
	}
	require.Contains(t, w.do("GET", "/v1/poll?channel=a:b", "", "Last-Event-ID", "1-0").body, `"payload":"hi"`)
	held := w.do("GET", "/v1/poll?channel=a:b&timeout=1s", "", "Last-Event-ID", id, "Origin", page1)
	require.Contains(t, held.body, `"messages":[]`)
	require.Equal(t, page1, held.Header.Get("Access-Control-Allow-Origin"), "also on a timeout")

	const bad = "/v1/poll?channel=a%2Fb"
	a := w.do("GET", bad, "", "Origin", page1)
	require.Contains(t, a.problem(t, 400, "bad_request"), "channel: ")
	require.Equal(t, page1, a.Header.Get("Access-Control-Allow-Origin"), "also on an error")
	a = w.do("GET", bad+"&status=body", "", "Origin", page1)
	require.Equal(t, 200, a.StatusCode)
	require.Equal(t, page1, a.Header.Get("Access-Control-Allow-Origin"))
	var inBody struct {
		Error  struct{ Code string }
		Status int
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &inBody))
	require.Equal(t, "bad_request", inBody.Error.Code)
	require.Equal(t, 400, inBody.Status)
	a = w.do("GET", bad+"&status=body&callback=f", "")
	require.Equal(t, 200, a.StatusCode)
	require.Equal(t, "application/javascript", a.Header.Get("Content-Type"))
	require.True(t, strings.HasPrefix(a.body, "/**/") && strings.Contains(a.body, "f({"), a.body)
	w.do("GET", "/v1/poll?channel=a&callback=1", "").problem(t, 400, "bad_request")
	w.do("POST", "/v1/poll?channel=a", "").problem(t, 405, "method_not_allowed")

	w.log.mu.Lock()
	w.log.onRead = func(stream.Query) (stream.Page, error) { panic("a poll does not read by itself") }
	w.log.mu.Unlock()
	require.Equal(t, 200, w.do("GET", "/v1/poll?channel=a:b&lastEventId=earliest", "").StatusCode)
}

// socket opens a WebSocket. The answer is that of a handshake that failed, too.
func (w *world) socket(query string, header ...string) (*websocket.Conn, *http.Response, error) {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	c, resp, err := websocket.Dial(w.t.Context(), w.url+"/v1/ws?"+query, &websocket.DialOptions{HTTPClient: w.http, HTTPHeader: h})
	if err == nil {
		w.t.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, resp, err
}

// frame reads frames up to one of that type.
func frame(t *testing.T, c *websocket.Conn, kind string) map[string]any {
	t.Helper()
	for {
		_, text, err := c.Read(t.Context())
		require.NoError(t, err)
		var f map[string]any
		require.NoError(t, json.Unmarshal(text, &f))
		if f["type"] == kind {
			return f
		}
	}
}

func TestWebSocket(t *testing.T) {
	w := newWorld(t, Options{MaxChannels: 2, Rewind: func(channel string) int { return len(channel) - 1 }})
	w.publish("a:b", "old")
	id := w.publish("a:b", "new")
	c, resp, err := w.socket("channel=a%3Ab", "Last-Event-ID", stream.BeforeFirst.String())
	require.NoError(t, err)
	require.Equal(t, 101, resp.StatusCode)
	require.Equal(t, "old", frame(t, c, "message")["payload"])
	require.Equal(t, id.String(), frame(t, c, "message")["id"])
	say := func(text string) { require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(text))) }
	w.publish("cc", "1")
	w.publish("cc", "2")
	say(`{"type":"subscribe","channel":"cc"}`)
	require.Equal(t, "2", frame(t, c, "message")["payload"], "by the server's rule")
	say(`{"type":"subscribe","channel":"d","ref":1}`)
	f := frame(t, c, "error")
	require.Equal(t, "bad_request", f["code"])
	require.Contains(t, f["detail"], "more than 2")

	for _, query := range []string{"", "channel=x&rewind=5"} {
		_, resp, err = w.socket(query)
		require.NoError(t, err)
		require.Equal(t, 101, resp.StatusCode)
	}
}

// What is no handshake, or none that may be, is told by a problem.
// Holds G93.
func TestWebSocketRefused(t *testing.T) {
	w := newWorld(t, Options{Origins: []string{page1}})
	a := w.do("GET", "/v1/ws?channel=a", "")
	a.problem(t, 426, "upgrade_required")
	require.Equal(t, "websocket", a.Header.Get("Upgrade"))
	require.Equal(t, "Upgrade", a.Header.Get("Connection"))
	a = w.do("GET", "/v1/ws", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "8")
	a.problem(t, 426, "upgrade_required")
	require.Equal(t, "13", a.Header.Get("Sec-WebSocket-Version"))
	w.do("GET", "/v1/ws", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13").problem(t, 400, "bad_request")
	for _, query := range []string{"channel=a%2Fb", "channel=a&heartbeat=1", "channel=a&lastEventId=x", "rewind=1&since=1h"} {
		_, resp, err := w.socket(query)
		require.Error(t, err)
		require.Equal(t, 400, resp.StatusCode, query)
	}
	own := w.url
	for origin, status := range map[string]int{
		own: 101, page1: 101, "https://evil.example": 403, "null": 403, strings.Replace(own, "127.0.0.1", "localhost", 1): 403,
	} {
		_, resp, err := w.socket("channel=a", "Origin", origin)
		require.Equal(t, status, resp.StatusCode, "%s: %v", origin, err)
		if status != 101 {
			require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
		}
	}
}

// A server that has as many readers as it may says so on each transport in a way
// that its clients come back from, and goes on taking messages in.
// Holds G91.
func TestTooManyReaders(t *testing.T) {
	w := newWorld(t, Options{MaxConnections: 2, Origins: []string{page1}})
	first, in := w.events("channel=a")
	until(t, in, "event: rejoin.ready")
	c, _, err := w.socket("channel=a")
	require.NoError(t, err)
	frame(t, c, "ready")

	refused, in := w.events("channel=a", "Origin", page1)
	require.Equal(t, 200, refused.StatusCode)
	require.Equal(t, []string{"text/event-stream"}, refused.Header["Content-Type"])
	require.Equal(t, "no-store, no-transform", refused.Header.Get("Cache-Control"))
	require.Equal(t, page1, refused.Header.Get("Access-Control-Allow-Origin"))
	require.True(t, in.Scan())
	require.Equal(t, "retry: 30000", in.Text())
	until(t, in, "event: rejoin.error")
	var p struct {
		Code   string
		Status int
	}
	require.NoError(t, json.Unmarshal([]byte(until(t, in, "data: ")), &p))
	require.Equal(t, "too_many", p.Code)
	require.Equal(t, 429, p.Status)
	for in.Scan() {
		require.Empty(t, in.Text())
	}
	require.ErrorIs(t, in.Err(), io.ErrUnexpectedEOF, "never a clean end")

	poll := w.do("GET", "/v1/poll?channel=a", "", "Origin", page1)
	poll.problem(t, 429, "too_many")
	require.Equal(t, "30", poll.Header.Get("Retry-After"))
	require.Equal(t, page1, poll.Header.Get("Access-Control-Allow-Origin"))
	poll = w.do("GET", "/v1/poll?channel=a&status=body&callback=f", "")
	require.Equal(t, 200, poll.StatusCode)
	require.Contains(t, poll.body, `"status":429`)
	_, resp, err := w.socket("channel=a")
	require.Error(t, err)
	require.Equal(t, 429, resp.StatusCode)
	require.Equal(t, "30", resp.Header.Get("Retry-After"))
	w.do("GET", "/v1/sse", "").problem(t, 400, "bad_request") // what cannot be mended by waiting

	w.publish("a", "x")
	require.Equal(t, "x", w.history("a", "").payloads())
	require.Contains(t, w.request("GET", w.admin+"/metrics", http.NoBody).body, `rejoin_problems_total{code="too_many"} 4`)
	require.Equal(t, 1, strings.Count(w.logged.String(), "limits.connections"), "one line for many")

	require.NoError(t, first.Body.Close())
	for w.broker.Subscriptions() == 2 {
		w.publish("a", "the client is gone once something cannot be written")
	}
	require.Equal(t, 200, w.do("GET", "/v1/poll?channel=a", "").StatusCode)
}

// Over HTTP/2 the refusal is a stream that is reset.
// Holds G91.
func TestTooManyReadersHTTP2(t *testing.T) {
	w := newWorld(t, Options{MaxConnections: 1})
	_, in := w.events("channel=a")
	until(t, in, "event: rejoin.ready")
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	defer tr.CloseIdleConnections()
	two := *w
	two.http = &http.Client{Transport: tr}
	resp, in := two.events("channel=a")
	require.Equal(t, 2, resp.ProtoMajor)
	require.Equal(t, 200, resp.StatusCode)
	until(t, in, "event: rejoin.error")
	for in.Scan() {
	}
	require.Error(t, in.Err(), "never a clean end")
}

// A browser's page of another origin may not write: not even by requests that
// need no preflight, and whose answers it cannot read.
// Holds G93.
func TestForeignPagesMayNotWrite(t *testing.T) {
	const foreign = "https://evil.example"
	for name, c := range map[string]struct {
		origins []string
		header  []string
		allowed bool
	}{
		"no browser":                       {nil, nil, true},
		"the address typed":                {nil, []string{"Sec-Fetch-Site", "none"}, true},
		"own page":                         {nil, []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://own.example"}, true},
		"own page, old browser":            {nil, []string{"Origin", "own"}, true},
		"foreign page":                     {nil, []string{"Sec-Fetch-Site", "cross-site", "Origin", foreign}, false},
		"foreign page, old browser":        {nil, []string{"Origin", foreign}, false},
		"foreign page without an origin":   {nil, []string{"Sec-Fetch-Site", "cross-site"}, false},
		"page of a sibling":                {nil, []string{"Sec-Fetch-Site", "same-site", "Origin", "https://sibling.example"}, false},
		"page from a file":                 {nil, []string{"Origin", "null"}, false},
		"page that is allowed":             {[]string{page1}, []string{"Sec-Fetch-Site", "cross-site", "Origin", page1}, true},
		"page that is not":                 {[]string{page1}, []string{"Sec-Fetch-Site", "cross-site", "Origin", foreign}, false},
		"page that looks like the allowed": {[]string{page1}, []string{"Origin", page1 + ".evil.example"}, false},
		"every page":                       {[]string{"*"}, []string{"Sec-Fetch-Site", "cross-site", "Origin", foreign}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{Origins: c.origins})
			header := append([]string{"Content-Type", "text/plain"}, c.header...)
			for i, value := range header {
				if value == "own" {
					header[i] = w.url
				}
			}
			for _, route := range []string{
				"POST /v1/channels/a/messages", `POST /v1/messages {"channels":["a"],"payload":"x"}`, "POST /v1/channels/b/end", "DELETE /v1/channels/a",
			} {
				method, rest, _ := strings.Cut(route, " ")
				path, body, _ := strings.Cut(rest, " ")
				a := w.do(method, path, body, header...)
				if c.allowed {
					require.Less(t, a.StatusCode, 300, "%s: %s", route, a.body)
					continue
				}
				require.Contains(t, a.problem(t, 403, "forbidden"), "cors.origins", route)
				require.Empty(t, a.Header.Get("Access-Control-Allow-Origin"))
			}
			// Reading asks for nothing of the kind: what a page may see is CORS'.
			require.Equal(t, 200, w.do("GET", "/v1/channels/a/messages", "", header...).StatusCode)
			if !c.allowed {
				require.Zero(t, w.log.writes)
			}
		})
	}
}

// A name means the same on every route: it is unescaped exactly once.
// Holds G2.
func TestNamesAreUnescapedOnceEverywhere(t *testing.T) {
	w := newWorld(t, Options{})
	for _, name := range []string{"a:b", "a+b", "a=b", "~a@b"} {
		escaped := strings.NewReplacer(":", "%3A", "+", "%2B", "=", "%3D", "@", "%40", "~", "%7E").Replace(name)
		id := w.publish(name, name)
		for _, path := range []string{"/v1/channels/" + escaped, "/v1/channels/" + name} {
			require.Contains(t, w.do("GET", path, "").body, fmt.Sprintf(`"channel":"%s"`, name))
			require.Contains(t, w.do("GET", path+"/messages/"+id.String(), "").body, fmt.Sprintf(`"payload":"%s"`, name))
		}
		require.Contains(t, w.do("GET", "/v1/poll?lastEventId=earliest&channel="+escaped, "").body, fmt.Sprintf(`"payload":"%s"`, name))
		_, in := w.events("lastEventId=earliest&channel=" + escaped)
		require.Equal(t, "", until(t, in, "data: "+name))
		c, _, err := w.socket("lastEventId=earliest&channel=" + escaped)
		require.NoError(t, err)
		require.Equal(t, name, frame(t, c, "message")["channel"])
		require.Equal(t, []string{""}, errorCodes(w.many(fmt.Sprintf(`{"channels":["%s"],"payload":"x"}`, name))))
		require.Equal(t, []string{"bad_request"}, errorCodes(w.many(fmt.Sprintf(`{"channels":["%s"],"payload":"x"}`, strings.Replace(escaped, "%", "%25", 1)))))
		require.Equal(t, 201, w.do("POST", "/v1/channels/"+escaped+"/end", "").StatusCode)
		require.Equal(t, 204, w.do("DELETE", "/v1/channels/"+escaped, "").StatusCode)
		require.Contains(t, w.do("GET", "/v1/channels/"+name, "").body, `"length":0`)
	}
	for _, bad := range []string{"a%2Fb", "a%252Fb", "a%253Ab"} {
		for _, route := range []string{"GET ", "DELETE ", "POST /end", "GET /messages", "GET /messages/1-1", "POST /messages"} {
			method, rest, _ := strings.Cut(route, " ")
			w.do(method, "/v1/channels/"+bad+rest, "").problem(t, 400, "bad_request")
		}
		for _, path := range []string{"/v1/poll", "/v1/sse", "/v1/ws"} {
			w.do("GET", path+"?channel="+bad, "").problem(t, 400, "bad_request")
		}
	}
}
