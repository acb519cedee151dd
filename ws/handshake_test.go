package ws

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHandshake(t *testing.T) {
	w := newWorld(t, Options{})
	for name, c := range map[string]struct {
		change   map[string]string
		protocol string
	}{
		"plain":                 {nil, ""},
		"subprotocol":           {map[string]string{"Sec-WebSocket-Protocol": "rejoin.v1"}, "rejoin.v1"},
		"one of several":        {map[string]string{"Sec-WebSocket-Protocol": "chat, rejoin.v1 ,x"}, "rejoin.v1"},
		"another subprotocol":   {map[string]string{"Sec-WebSocket-Protocol": "rejoin.v2, chat"}, ""},
		"compression is for no": {map[string]string{"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}, ""},
		"same origin":           {map[string]string{"Origin": "http://" + w.addr}, ""},
		"behind a proxy":        {map[string]string{"Origin": "https://news.example", "Sec-Fetch-Site": "same-origin"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			resp, _ := w.get("HTTP/1.1", c.change)
			require.Equal(t, 101, resp.StatusCode)
			require.Equal(t, "websocket", resp.Header.Get("Upgrade"))
			require.Equal(t, "Upgrade", resp.Header.Get("Connection"))
			require.Equal(t, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", resp.Header.Get("Sec-WebSocket-Accept"), "RFC 6455, section 1.3")
			require.Equal(t, c.protocol, resp.Header.Get("Sec-WebSocket-Protocol"))
			require.Empty(t, resp.Header.Get("Sec-WebSocket-Extensions"))
		})
	}
}

// What is not upgraded is an answer, and nothing is left of it.
func TestRefusedHandshake(t *testing.T) {
	w := newWorld(t, Options{})
	for name, c := range map[string]struct {
		proto  string
		change map[string]string
		status int
		detail string
	}{
		"no upgrade":        {"", map[string]string{"Upgrade": ""}, 426, "Upgrade: websocket"},
		"another upgrade":   {"", map[string]string{"Upgrade": "h2c"}, 426, "Upgrade: websocket"},
		"no connection":     {"", map[string]string{"Connection": "keep-alive"}, 426, "Upgrade: websocket"},
		"old version":       {"", map[string]string{"Sec-WebSocket-Version": "8"}, 426, "want 13"},
		"no version":        {"", map[string]string{"Sec-WebSocket-Version": ""}, 426, "want 13"},
		"no key":            {"", map[string]string{"Sec-WebSocket-Key": ""}, 400, "16 bytes in base64"},
		"short key":         {"", map[string]string{"Sec-WebSocket-Key": "dGhlIHNhbXBsZQ=="}, 400, "16 bytes in base64"},
		"key of 24 letters": {"", map[string]string{"Sec-WebSocket-Key": "!!!!!!!!!!!!!!!!!!!!!!!!"}, 400, "16 bytes in base64"},
		"POST":              {"", map[string]string{"method": "POST"}, 400, "opened by GET"},
		"HTTP/2":            {"HTTP/2", nil, 400, "HTTP/1.1"},
		"another origin":    {"", map[string]string{"Origin": "http://evil.example"}, 403, "another origin"},
		"no origin at all":  {"", map[string]string{"Origin": "null"}, 403, "another origin"},
		"cross-site":        {"", map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, 403, "another origin"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := w.get(c.proto, c.change)
			require.Equal(t, c.status, resp.StatusCode, body)
			require.Contains(t, body, c.detail)
			if c.status == 426 {
				require.Equal(t, "websocket", resp.Header.Get("Upgrade"))
				require.Equal(t, "Upgrade", resp.Header.Get("Connection"))
			}
			if strings.Contains(c.detail, "13") {
				require.Equal(t, "13", resp.Header.Get("Sec-WebSocket-Version"))
			}
			require.Zero(t, w.broker.Stats().Subscriptions)
		})
	}
}

// The hooks decide who gets in, before the upgrade.
func TestHooks(t *testing.T) {
	w := newWorld(t, Options{
		CheckOrigin: func(r *http.Request) error {
			if r.Header.Get("Origin") == "https://friend.example" {
				return nil
			}
			return &HandshakeError{403, "no friend"}
		},
		Grant: func(r *http.Request) (Grant, error) {
			if r.Header.Get("Authorization") == "" {
				return Grant{}, errors.New("who are you?")
			}
			return Grant{CheckRead: guard(r.Header.Get("Authorization"))}, nil
		},
	})
	resp, _ := w.get("", map[string]string{"Origin": "https://friend.example", "Authorization": "a"})
	require.Equal(t, 101, resp.StatusCode)
	resp, body := w.get("", map[string]string{"Origin": "https://foe.example", "Authorization": "a"})
	require.Equal(t, 403, resp.StatusCode)
	require.Contains(t, body, "no friend")
	resp, body = w.get("", nil)
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, body, "who are you?")
	resp, body = w.get("", map[string]string{"Authorization": "b"})
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, body, "you may not read a")
}

// A client that sends right behind its handshake is heard, and nothing of the
// request is kept: its handler has returned.
func TestEarlyBytes(t *testing.T) {
	w := newWorld(t, Options{})
	conn, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	c := newRawClient(t, conn)
	text := masked(final|opText, `{"type":"subscribe","channel":"b","ref":"early"}`)
	c.send(append([]byte("GET /?channel=a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"), text[:20]...))
	resp, err := http.ReadResponse(c.in, nil)
	require.NoError(t, err)
	require.Equal(t, 101, resp.StatusCode)
	<-w.served
	c.next("ready")
	c.send(text[20:])
	require.Equal(t, "early", c.next("subscribed").fields(t)["ref"])
	id := w.publish("b", "x")
	require.Equal(t, id.String(), c.next("message").fields(t)["id"])
}

func TestRetryIsRandom(t *testing.T) {
	h := New(Options{})
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := h.retry()
		require.GreaterOrEqual(t, d, 500*time.Millisecond)
		require.LessOrEqual(t, d, 3*time.Second)
		seen[d] = true
	}
	require.Greater(t, len(seen), 500)
	require.Equal(t, 5*time.Second, New(Options{RetryMin: 5 * time.Second}).retry(), "a minimum above the default maximum")
}
