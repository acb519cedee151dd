package ws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

// eachWriter runs a test on connections that a pump writes to, where there is
// one, and on connections with goroutines of their own.
func eachWriter(t *testing.T, test func(t *testing.T, newWorld func(Options) *world)) {
	t.Run("pump", func(t *testing.T) {
		test(t, func(o Options) *world { return newWorld(t, o) })
	})
	t.Run("pull", func(t *testing.T) {
		test(t, func(o Options) *world {
			return newWorldOn(t, o, true)
		})
	})
}

// listener gives its connections small buffers, so that writes are cut, and
// hides on request that they are TCP.
type listener struct {
	net.Listener
	hide bool
}

type hidden struct{ *net.TCPConn }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp := c.(*net.TCPConn)
	if err := tcp.SetWriteBuffer(8 << 10); err != nil {
		return nil, err
	}
	if l.hide {
		return hidden{tcp}, nil
	}
	return tcp, nil
}

// world is a log, a broker and a server of WebSockets on loopback.
type world struct {
	t       *testing.T
	log     *memlog.Log
	broker  *delivery.Broker
	handler *Handler
	addr    string
	served  chan struct{} // one for each request that Serve has returned from
}

func newWorld(t *testing.T, o Options) *world {
	return newWorldOn(t, o, false)
}

func newWorldOn(t *testing.T, o Options, hide bool) *world {
	log := memlog.New(memlog.Options{})
	w := &world{t: t, log: log, broker: delivery.New(log, delivery.Options{}), served: make(chan struct{}, 1000)}
	o.Broker, o.Problem = w.broker, problem
	w.handler = New(o)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		req, err := delivery.ParseRequest(r.URL.RawQuery, r.Header.Get("Last-Event-ID"), delivery.RequestRules{Now: log.Now(), NoChannels: true})
		if err == nil {
			err = w.handler.Serve(out, r, req)
		}
		w.served <- struct{}{}
		if err != nil {
			status := http.StatusBadRequest
			if h, ok := errors.AsType[*HandshakeError](err); ok {
				status = h.Status
			}
			http.Error(out, err.Error(), status)
		}
	}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv.Config.Protocols = protocols
	srv.Listener = listener{srv.Listener, hide}
	srv.Start()
	w.addr = srv.Listener.Addr().String()
	t.Cleanup(func() {
		srv.Close()
		w.broker.Close()
		w.handler.Wait()
		require.Zero(t, w.broker.Stats().Subscriptions)
		require.NoError(t, log.Close())
	})
	return w
}

func (w *world) publish(channel, payload string) stream.ID {
	w.t.Helper()
	done, err := w.log.Append(w.t.Context(), stream.Message{Channel: channel, Payload: payload})
	require.NoError(w.t, err)
	return done.ID
}

// client is a WebSocket of coder/websocket's.
type client struct {
	t    *testing.T
	conn *websocket.Conn
}

func (w *world) dial(query string) *client {
	w.t.Helper()
	conn, _, err := websocket.Dial(w.t.Context(), "ws://"+w.addr+"/?"+query, nil)
	require.NoError(w.t, err)
	conn.SetReadLimit(-1)
	w.t.Cleanup(func() { _ = conn.CloseNow() })
	return &client{w.t, conn}
}

func (c *client) say(format string, args ...any) {
	c.t.Helper()
	require.NoError(c.t, c.conn.Write(c.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)))
}

// told is a frame of the server's as a client sees it.
type told struct {
	Type, Channel, ID, Payload, Event, Key, Cursor, State, Reason, Detail, Code string

	Channels any
	Replay   uint64
	Retry    int
	Ref      any
}

// next is the next frame, of the types given if any are.
func (c *client) next(types ...string) told {
	c.t.Helper()
	for {
		kind, b, err := c.conn.Read(c.t.Context())
		require.NoError(c.t, err, "before %v", types)
		require.Equal(c.t, websocket.MessageText, kind)
		var f told
		require.NoError(c.t, json.Unmarshal(b, &f), "%s", b)
		if len(types) == 0 || strings.Contains(strings.Join(types, " "), f.Type) {
			return f
		}
	}
}

// closed reads up to the server's close and returns its code.
func (c *client) closed() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, _, err := c.conn.Read(c.t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// get makes a request with a WebSocket's headers, changed by some of the
// caller's: an empty value removes one.
func (w *world) get(proto string, change map[string]string) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "GET", "http://"+w.addr+"/?channel=a", nil)
	require.NoError(w.t, err)
	for name, value := range map[string]string{
		"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13",
	} {
		r.Header.Set(name, value)
	}
	p := new(http.Protocols)
	p.SetHTTP1(proto != "HTTP/2")
	p.SetUnencryptedHTTP2(proto == "HTTP/2")
	if proto == "HTTP/2" {
		r.Header.Del("Connection")
		r.Header.Del("Upgrade")
	}
	for name, value := range change {
		switch {
		case name == "method":
			r.Method = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	tr := &http.Transport{Protocols: p}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(r)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, ""
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return resp, string(b)
}

// open is a raw client after its handshake.
func (w *world) open(query string) *rawClient {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	require.NoError(w.t, err)
	c := newRawClient(w.t, conn)
	c.send([]byte("GET /?" + query + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
	resp, err := http.ReadResponse(c.in, nil)
	require.NoError(w.t, err)
	require.Equal(w.t, 101, resp.StatusCode)
	return c
}
