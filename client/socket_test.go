package client_test

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/client"
	"rejoin/stream"
)

// socketServer serves one WebSocket after the other as told; then it refuses.
type socketServer struct {
	*httptest.Server

	mu       sync.Mutex // guards the following
	turns    []func(*websocket.Conn)
	requests []*http.Request
}

func newSocketServer(t *testing.T, turns ...func(*websocket.Conn)) *socketServer {
	s := &socketServer{turns: turns}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		if len(s.turns) == 0 {
			s.mu.Unlock()
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"status":403,"code":"forbidden","detail":"no more turns"}`))
			return
		}
		turn := s.turns[0]
		s.turns = s.turns[1:]
		s.mu.Unlock()
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"rejoin.v1"}})
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		turn(conn)
	}))
	t.Cleanup(s.Close)
	return s
}

// frames sends text frames.
func frames(texts ...string) func(*websocket.Conn) {
	return func(c *websocket.Conn) {
		for _, text := range texts {
			_ = c.Write(context.Background(), websocket.MessageText, []byte(text))
		}
	}
}

// then does one thing after the other.
func then(all ...func(*websocket.Conn)) func(*websocket.Conn) {
	return func(c *websocket.Conn) {
		for _, do := range all {
			do(c)
		}
	}
}

// closes closes with a code.
func closes(code websocket.StatusCode, reason string) func(*websocket.Conn) {
	return func(c *websocket.Conn) { _ = c.Close(code, reason) }
}

func sockets(channels ...string) client.SubscribeOptions {
	return client.SubscribeOptions{Channels: channels, Transport: client.WebSocket}
}

func TestSocket(t *testing.T) {
	id := func(ms, n uint64) stream.ID { return stream.ID{MS: ms, N: n} }
	at := func(a, b stream.ID) string { return " @" + compact(map[string]stream.ID{"a": a, "b": b}) }
	start := compact(map[string]stream.ID{"a": id(100, 1), "b": id(1, 0)})
	s := newSocketServer(t, then(frames(
		`{"type":"ready","channels":{"a":{"cursor":"100-1","replay":3},"b":{"cursor":"1-0","replay":0}},"cursor":"`+start+`","retry":3}`,
		`{"type":"state","state":"replaying","since":"2026-01-01T00:00:00.000Z"}`,
		`{"type":"message","channel":"a","id":"200-2","time":"2026-01-01T00:00:00.200Z","payload":"a2","event":"e","key":"k","later":1}`,
		`{"type":"novelty"}`,
		`{"type":"gap","channel":"a","after":"200-2","next":"500-5","missed":2,"reason":"trimmed","cursor":"200-2"}`,
		`{"type":"message","channel":"a","id":"500-5","time":"2026-01-01T00:00:00.500Z","payload":"a5"}`,
		`{"type":"message","channel":"b","id":"600-1","time":"2026-01-01T00:00:00.600Z","payload":"b1"}`,
		`{"type":"gap","channel":"b","after":"600-1","next":null,"missed":null,"reason":"reset","cursor":"900-9"}`,
		`{"type":"end","channel":"a","id":"500-5"}`,
	), closes(1001, "this server moves its connections")), then(frames(
		`{"type":"ready","channels":{"a":{"cursor":"500-5","replay":0},"b":{"cursor":"900-9","replay":0}},"cursor":"`+compact(map[string]stream.ID{"a": id(500, 5), "b": id(900, 9)})+`","retry":3}`,
		`{"type":"end","channel":"a","id":"500-5"}`,
		`{"type":"end","channel":"b","id":"910-10"}`,
	), closes(1000, "every channel has ended")))
	c := newClient(t, client.Options{URL: s.URL, Token: "t"})
	words, err := events(within(t, patience), c, sockets("a", "b"), 99)
	require.NoError(t, err)
	want := []string{
		"ready" + at(id(100, 1), id(1, 0)), "replaying", "a2" + at(id(200, 2), id(1, 0)),
		"gap trimmed after 200-2 next 500-5 missed 2" + at(id(200, 2), id(1, 0)), "a5" + at(id(500, 5), id(1, 0)),
		"b1" + at(id(500, 5), id(600, 1)), "gap reset after 600-1 next 0-0 missed 0" + at(id(500, 5), id(900, 9)),
		"end a 500-5" + at(id(500, 5), id(900, 9)),
		"disconnected: client: the server closed the connection: 1001 this server moves its connections",
		"ready" + at(id(500, 5), id(900, 9)), "end b 910-10" + at(id(500, 5), id(910, 10)),
	}
	assert.Equal(t, want, words)
	r := s.requests[0]
	assert.Equal(t, []string{"/v1/ws", "channel=a&channel=b&heartbeat=15s", "Bearer t", "rejoin.v1"},
		[]string{r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Sec-WebSocket-Protocol")})
	assert.Equal(t, strings.TrimPrefix(want[7], "end a 500-5 @"), s.requests[1].URL.Query().Get("lastEventId"))
}

func TestSocketRefused(t *testing.T) {
	ready := `{"type":"ready","channels":{"news":{"cursor":"1-0","replay":0}},"cursor":"1-0","retry":3}`
	for name, c := range map[string]struct {
		turn func(*websocket.Conn)
		want client.Error
	}{
		"by a frame":             {frames(ready, `{"type":"error","status":403,"title":"Forbidden","code":"forbidden","detail":"not this one"}`), client.Error{Status: 403, Code: "forbidden", Detail: "not this one"}},
		"by a code":              {closes(4003, "not allowed"), client.Error{Status: 403, Code: "forbidden", Detail: "not allowed"}},
		"by policy":              {closes(1008, "policy"), client.Error{Status: 403, Code: "forbidden", Detail: "policy"}},
		"expired":                {then(frames(ready, `{"type":"expired"}`), closes(4001, "")), client.Error{Status: 401, Code: "unauthorized", Detail: "the token has run out"}},
		"expired without a word": {closes(4001, ""), client.Error{Status: 401, Code: "unauthorized", Detail: "the token has run out"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSocketServer(t, c.turn)
			_, err := events(within(t, patience), newClient(t, client.Options{URL: s.URL}), sockets("news"), 99)
			said, ok := errors.AsType[*client.Error](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, c.want, *said)
		})
	}
	s := newSocketServer(t)
	_, err := events(within(t, patience), newClient(t, client.Options{URL: s.URL}), sockets("news"), 99)
	said, ok := errors.AsType[*client.Error](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, client.Error{Status: 403, Code: "forbidden", Detail: "no more turns"}, *said)

	for _, text := range []string{"no JSON", `{"type":"message","channel":"olds","id":"1-1"}`, `{"type":"message","payload":"` + strings.Repeat("x", 20_000) + `"}`} {
		s := newSocketServer(t, frames(ready, text))
		_, err := events(within(t, patience), newClient(t, client.Options{URL: s.URL, MaxMessageBytes: 10_000}), sockets("news"), 99)
		assert.ErrorIs(t, err, client.ErrProtocol)
	}
}

// upgrades answers a handshake (RFC 6455, section 4.2.2) and leaves the
// connection, which is in memory, to serve.
func upgrades(serve func(net.Conn)) answer {
	return func(r *http.Request) (*http.Response, error) {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			serve(theirs)
		}()
		return respond(r, http.StatusSwitchingProtocols, ours, "Connection", "Upgrade", "Upgrade", "websocket",
			"Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(sum[:]), "Sec-WebSocket-Protocol", "rejoin.v1"), nil
	}
}

// A socket on which nothing comes is given up; pings keep it.
func TestSocketSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pongs := make(chan ws.OpCode, 3)
		f := &fake{t: t, answers: []answer{upgrades(func(c net.Conn) {
			assert.NoError(t, ws.WriteFrame(c, ws.NewTextFrame([]byte(`{"type":"ready","channels":{"news":{"cursor":"1-0","replay":0}},"cursor":"1-0","retry":3000}`))))
			for range 3 {
				time.Sleep(9 * time.Second)
				assert.NoError(t, ws.WriteFrame(c, ws.NewPingFrame([]byte("p"))))
				frame, err := ws.ReadFrame(c)
				assert.NoError(t, err)
				pongs <- frame.Header.OpCode
			}
			_, _ = io.Copy(io.Discard, c)
		}), refuses(403, "forbidden")}}
		begun := time.Now()
		o := sockets("news")
		o.Heartbeat = 5 * time.Second
		words, err := events(t.Context(), f.client(client.Options{}), o, 99)
		require.ErrorContains(t, err, "403 forbidden")
		assert.Equal(t, []string{"ready @1-0", "disconnected: client: the server does not answer"}, words)
		for range 3 {
			assert.Equal(t, ws.OpPong, <-pongs)
		}
		assert.Equal(t, 27*time.Second+2*o.Heartbeat+3*time.Second, time.Since(begun))
	})
}

// Told to move, a socket leaves within the time and comes back at once.
func TestSocketMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, answers: []answer{upgrades(func(c net.Conn) {
			for _, text := range []string{
				`{"type":"ready","channels":{"news":{"cursor":"1-0","replay":0}},"cursor":"1-0","retry":3000}`, `{"type":"move","within":4000}`,
			} {
				assert.NoError(t, ws.WriteFrame(c, ws.NewTextFrame([]byte(text))))
			}
			_, _ = io.Copy(io.Discard, c)
		}), refuses(403, "forbidden")}}
		words, err := events(t.Context(), f.client(client.Options{}), sockets("news"), 99)
		require.ErrorContains(t, err, "403 forbidden")
		assert.Equal(t, []string{"ready @1-0", "move 4s"}, words)
		assert.Less(t, f.requests[1].at, 4*time.Second)
		assert.Equal(t, "1-0", f.requests[1].URL.Query().Get("lastEventId"))
	})
}
