package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// Holds G11.
func TestPublish(t *testing.T) {
	w := newWorld(t, Options{})
	a := w.do("POST", "/v1/channels/news/messages?event=tick&key=k&unknown=1", "hi")
	require.Equal(t, 201, a.StatusCode)
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	var p published
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	require.Equal(t, `{"id":"`+p.ID.String()+`","channel":"news"}`+"\n", a.body)
	require.Equal(t, uint64(1), p.ID.N)
	require.Equal(t, "/v1/channels/news/messages/"+p.ID.String(), a.Header.Get("Location"))
	require.Empty(t, a.Header.Values("Idempotent-Replayed"))

	page, err := w.log.Read(t.Context(), stream.Query{Channel: "news", Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	e := page.Entries[0]
	require.Equal(t, []string{"hi", "tick", "k"}, []string{e.Payload, e.Event, e.Key})

	require.Equal(t, uint64(2), w.publish("news", "").N, "an empty payload is one")

	w.log.failWrites(&stream.Error{Op: "append", Channel: "news", Kind: stream.ErrUnavailable})
	a = w.do("POST", "/v1/channels/news/messages", "hi")
	a.problem(t, 503, "log_unavailable")
	require.Empty(t, a.Header.Values("Location"))
}

// Holds G12, G13.
func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t, Options{})
	const path = "/v1/channels/news/messages?event=e&key=k"
	first := w.do("POST", path, "hi", "Idempotency-Key", "x")
	require.Equal(t, 201, first.StatusCode)
	again := w.do("POST", path, "hi", "Idempotency-Key", "x")
	require.Equal(t, 201, again.StatusCode)
	require.Equal(t, first.body, again.body)
	require.Equal(t, first.Header.Get("Location"), again.Header.Get("Location"))
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))

	w.do("POST", path, "other", "Idempotency-Key", "x").problem(t, 422, "idempotency_conflict")
	w.do("POST", strings.Replace(path, "event=e", "event=f", 1), "hi", "Idempotency-Key", "x").problem(t, 422, "idempotency_conflict")
	w.do("POST", strings.Replace(path, "key=k", "key=l", 1), "hi", "Idempotency-Key", "x").problem(t, 422, "idempotency_conflict")

	require.Equal(t, 201, w.do("POST", path, "hi", "Idempotency-Key", "y").StatusCode)
	require.Equal(t, 201, w.do("POST", "/v1/channels/other/messages", "z", "Idempotency-Key", "x").StatusCode, "a key is its channel's")
	b, err := w.log.Bounds(t.Context(), "news")
	require.NoError(t, err)
	require.Equal(t, uint64(2), b.Length)
}

// A channel's name is unescaped exactly once.
// Holds G2.
func TestNamesAreUnescapedOnce(t *testing.T) {
	w := newWorld(t, Options{})
	for path, want := range map[string]string{
		"a:b":             "a:b",
		"a%3Ab":           "a:b",
		"a%3ab":           "a:b",
		"a%2Bb":           "a+b",
		"a+b":             "a+b",
		"%61":             "a",
		"~a@b.c=d-e_F":    "~a@b.c=d-e_F",
		"%7Ea%40b.c%3Dd":  "~a@b.c=d",
		"...":             "...",
		"%2E%2E%2E":       "...",
		"a.%2E":           "a..",
		"messages":        "messages",
		"a%3Ab:c%2Bd+e=f": "a:b:c+d+e=f",
	} {
		a := w.do("POST", "/v1/channels/"+path+"/messages", "x")
		require.Equal(t, 201, a.StatusCode, "%s: %s", path, a.body)
		var p published
		require.NoError(t, json.Unmarshal([]byte(a.body), &p))
		require.Equal(t, want, p.Channel, path)
		a = w.do("GET", "/v1/channels/"+path+"/messages", "")
		require.Contains(t, a.body, `"channel":"`+want+`"`)
	}
	for _, path := range []string{
		"a%2Fb", "a%252Fb", "a%253Ab", "%2e", "%2e%2e", "a%20b", "a%00b", "%C3%A4", "ä", "a%0Ab", "*", "a%2A",
		strings.Repeat("a", 201), "a;b", "a,b", "a$b", "a&b", "(a)",
	} {
		detail := w.do("POST", "/v1/channels/"+path+"/messages", "x").problem(t, 400, "bad_request")
		require.Contains(t, detail, "channel: ", path)
		w.do("GET", "/v1/channels/"+path+"/messages", "").problem(t, 400, "bad_request")
	}
	require.Equal(t, 201, w.do("POST", "/v1/channels/"+strings.Repeat("a", 200)+"/messages", "x").StatusCode)
}

// A payload comes back as it was sent, in history and in a stream.
// Holds G9.
func TestPayloadsComeBack(t *testing.T) {
	w := newWorld(t, Options{})
	_, in := w.events("channel=a&format=json")
	until(t, in, "event: rejoin.ready")
	for name, payload := range map[string]string{
		"empty": "", "LF": "a\nb", "CR": "a\rb", "CRLF": "a\r\nb\r\n", "trailing": "a\n\n", "separator": "a\u2028b\u2029",
		"NUL": "a\x00b", "four bytes": "😀", "JSON": `{"a":"\u0000"}`, "HTML": "<script>&amp;</script>", "BOM": "\uFEFFx",
	} {
		id := w.publish("a", payload)
		require.Equal(t, id.String(), until(t, in, "id: "), name)
		var live struct{ Payload, ID string }
		require.NoError(t, json.Unmarshal([]byte(until(t, in, "data: ")), &live))
		require.Equal(t, payload, live.Payload, name)

		var page struct {
			Messages []struct{ Payload, ID string }
		}
		a := w.do("GET", "/v1/channels/a/messages?limit=1000", "")
		require.NoError(t, json.Unmarshal([]byte(a.body), &page))
		last := page.Messages[len(page.Messages)-1]
		require.Equal(t, id.String(), last.ID)
		require.Equal(t, payload, last.Payload, name)
	}
}

// Holds G17.
func TestPayloadLimitByChannel(t *testing.T) {
	w := newWorld(t, Options{PayloadLimit: func(channel string) int {
		if channel == "small" {
			return 8
		}
		return 1 << 20
	}})
	require.Equal(t, 201, w.do("POST", "/v1/channels/small/messages", "12345678").StatusCode)
	require.Equal(t, 201, w.do("POST", "/v1/channels/big/messages", strings.Repeat("x", 1<<20)).StatusCode)
	writes := w.log.writes
	require.Contains(t, w.do("POST", "/v1/channels/small/messages", "123456789").problem(t, 413, "payload_too_large"), "8 bytes")
	// Without a Content-Length it is found while reading.
	chunked := struct{ io.Reader }{strings.NewReader("123456789")}
	w.request("POST", w.url+"/v1/channels/small/messages", chunked).problem(t, 413, "payload_too_large")
	chunked = struct{ io.Reader }{strings.NewReader("12345678")}
	require.Equal(t, 201, w.request("POST", w.url+"/v1/channels/small/messages", chunked).StatusCode)
	w.do("POST", "/v1/channels/big/messages", strings.Repeat("x", 1<<20+1)).problem(t, 413, "payload_too_large")
	require.Equal(t, writes+1, w.log.writes)
}

// A body that does not come in time is refused, one that breaks off is not
// appended.
// Holds G17.
func TestSlowAndBrokenBodies(t *testing.T) {
	w := newWorld(t, Options{BodyTimeout: 50 * time.Millisecond})
	for name, head := range map[string]string{
		"length":  "Content-Length: 5\r\n\r\nab",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial()
			_, err := io.WriteString(conn, "POST /v1/channels/slow/messages HTTP/1.1\r\nHost: x\r\n"+head)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			answered{resp, string(body)}.problem(t, 408, "request_timeout")
			require.True(t, resp.Close)
		})
	}
	t.Run("broken off", func(t *testing.T) {
		conn := w.dial()
		_, err := io.WriteString(conn, "POST /v1/channels/slow/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
		require.NoError(t, err)
		require.NoError(t, conn.CloseWrite())
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 400, resp.StatusCode)
	})
	t.Run("HTTP/2", func(t *testing.T) {
		p := new(http.Protocols)
		p.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: p}
		defer tr.CloseIdleConnections()
		w := *w
		w.http = &http.Client{Transport: tr, Timeout: patience}
		never, write := io.Pipe()
		defer write.Close()
		w.request("POST", w.url+"/v1/channels/slow/messages", never).problem(t, 408, "request_timeout")
	})
	require.Zero(t, w.log.writes)
	// A read deadline of a body that came does not end what follows it.
	require.Equal(t, uint64(1), w.publish("slow", "x").N)
}

func (w *world) dial() *net.TCPConn {
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(w.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn.(*net.TCPConn)
}

// A client that leaves while the log is asked does not make the outcome unknown.
func TestClientLeavesDuringAppend(t *testing.T) {
	w := newWorld(t, Options{BodyTimeout: 20 * time.Millisecond})
	asked, goOn := make(chan struct{}), make(chan struct{})
	w.log.mu.Lock()
	w.log.onWrite = func(stream.Message) error { close(asked); <-goOn; return nil }
	w.log.mu.Unlock()
	conn := w.dial()
	_, err := io.WriteString(conn, "POST /v1/channels/a/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
	require.NoError(t, err)
	<-asked
	require.NoError(t, conn.Close())
	_, in := w.events("channel=a&lastEventId=earliest")
	until(t, in, "event: rejoin.ready")
	close(goOn)
	until(t, in, "id: ")
	require.Equal(t, "ab", until(t, in, "data: "))
}
