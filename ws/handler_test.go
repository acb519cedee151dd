package ws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

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

// A connection that begins without channels is ready at once, and serves what
// is subscribed to.
func TestBeginsWithoutChannels(t *testing.T) {
	w := newWorld(t, Options{RetryMin: 700 * time.Millisecond, RetryMax: 900 * time.Millisecond})
	c := w.dial("")
	ready := c.next()
	require.Equal(t, "ready", ready.Type)
	require.Equal(t, "1~", ready.Cursor)
	require.Empty(t, ready.Channels)
	require.GreaterOrEqual(t, ready.Retry, 700)
	require.LessOrEqual(t, ready.Retry, 900)
	c.say(`{"type":"subscribe","channel":"a","ref":"first"}`)
	require.Equal(t, told{Type: "subscribed", Channel: "a", Cursor: "1-0", Ref: "first"}, c.next())
	require.Equal(t, "live", c.next().State)
	id := w.publish("a", "x")
	require.Equal(t, told{Type: "message", Channel: "a", ID: id.String(), Payload: "x"}, c.next())
}

func TestLiveAndResume(t *testing.T) {
	w := newWorld(t, Options{})
	c := w.dial("channel=a")
	ready := c.next("ready")
	require.Equal(t, "1-0", ready.Cursor)
	one := w.publish("a", "one")
	two := w.publish("a", "two")
	three := w.publish("a", "three")
	for _, id := range []stream.ID{one, two, three} {
		require.Equal(t, id.String(), c.next("message").ID)
	}
	for name, query := range map[string]string{
		"its last id":    "channel=a&lastEventId=" + one.String(),
		"ready's cursor": "channel=a&lastEventId=1-0",
		"rewind":         "channel=a&rewind=2",
	} {
		again := w.dial(query)
		r := again.next()
		require.Equal(t, "ready", r.Type, name)
		if name != "ready's cursor" {
			require.Equal(t, two.String(), again.next("message").ID, name)
			require.Equal(t, three.String(), again.next("message").ID, name)
			require.Equal(t, "live", again.next().State, name)
		} else {
			require.Equal(t, one.String(), again.next("message").ID, name)
		}
	}
	// The same by frames of a connection that is open.
	again := w.dial("")
	again.next("ready")
	again.say(`{"type":"subscribe","channel":"a","after":%q,"ref":1}`, one)
	s := again.next()
	require.Equal(t, told{Type: "subscribed", Channel: "a", Cursor: one.String(), Replay: 2, Ref: 1.0}, s)
	require.Equal(t, "replaying", again.next().State)
	require.Equal(t, two.String(), again.next().ID)
	require.Equal(t, three.String(), again.next().ID)
	require.Equal(t, "live", again.next().State)
	again.say(`{"type":"unsubscribe","channel":"a"}`)
	require.Equal(t, told{Type: "unsubscribed", Channel: "a"}, again.next())
	again.say(`{"type":"subscribe","channel":"a","rewind":1}`)
	require.Equal(t, two.String(), again.next("subscribed").Cursor)
	require.Equal(t, three.String(), again.next("message").ID)

	lost := w.dial("")
	lost.next("ready")
	lost.say(`{"type":"subscribe","channel":"a","after":"%d-9"}`, three.MS+1)
	gap := lost.next("gap")
	require.Equal(t, "reset", gap.Reason)
	require.Equal(t, "0-0", gap.Cursor)
	require.Equal(t, one.String(), lost.next("message").ID)
}

// With several channels a client keeps an id for each, or builds the cursor.
func TestSeveralChannels(t *testing.T) {
	w := newWorld(t, Options{})
	c := w.dial("channel=a&channel=b")
	cursor := stream.NewPositions([]string{"a", "b"})
	ready := c.next("ready")
	require.True(t, strings.HasPrefix(ready.Cursor, "1~"))
	for _, m := range []string{"a1", "b1", "a2"} {
		w.publish(m[:1], m)
		got := c.next("message")
		require.Equal(t, m, got.Payload)
		id, err := stream.ParseID(got.ID)
		require.NoError(t, err)
		cursor.Set(got.Channel, id)
	}
	w.publish("b", "b2")
	again := w.dial("channel=a&channel=b&lastEventId=" + cursor.String())
	require.Equal(t, "b2", again.next("message").Payload)
	fromReady := w.dial("channel=a&channel=b&lastEventId=" + ready.Cursor)
	got := map[string]string{}
	for range 4 {
		m := fromReady.next("message")
		got[m.Channel] += m.Payload
	}
	require.Equal(t, map[string]string{"a": "a1a2", "b": "b1b2"}, got)
}

// Faults in a client's frames are told, with its ref, and the connection goes on.
func TestFaultyFrames(t *testing.T) {
	w := newWorld(t, Options{MaxChannels: 2})
	c := w.dial("channel=a")
	c.next("ready")
	c.next("state")
	for frame, detail := range map[string]string{
		`hello`:                                "message: want a JSON object",
		`{}`:                                   "type: want subscribe, unsubscribe or auth",
		`{"type":"publish"}`:                   "messages are published by POST",
		`{"type":"message"}`:                   "type: want subscribe, unsubscribe or auth",
		`{"type":"auth"}`:                      "auth: this version does not serve it yet",
		`{"type":"subscribe"}`:                 "channel: stream: not a channel name",
		`{"type":"subscribe","channel":"a b"}`: "channel: stream: not a channel name",
		`{"type":"subscribe","channel":"a"}`:   "channel: this connection reads a already",
		`{"type":"subscribe","channel":"b","after":"x"}`: "after: stream: not a cursor",
		`{"type":"subscribe","channel":"b","rewind":-1}`: "rewind: want a number from 0",
		`{"type":"unsubscribe","channel":"b"}`:           `channel: this connection does not read \"b\"`,
		`{"type":"unsubscribe"}`:                         `channel: this connection does not read \"\"`,
	} {
		ref := any(nil)
		if strings.HasSuffix(frame, `"}`) || strings.HasSuffix(frame, `1}`) {
			frame, ref = strings.TrimSuffix(frame, "}")+`,"ref":"r7"}`, "r7"
		}
		c.say("%s", frame)
		got := c.next()
		require.Equal(t, "error", got.Type, frame)
		require.Contains(t, got.Detail, strings.ReplaceAll(detail, `\"`, `"`), frame)
		require.Equal(t, "bad_request", got.Code)
		require.Equal(t, ref, got.Ref, frame)
	}
	require.NoError(t, c.conn.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"subscribe","channel":"b"}`)))
	require.Contains(t, c.next().Detail, "want text frames")

	c.say(`{"type":"subscribe","channel":"b"}`)
	c.next("subscribed")
	c.say(`{"type":"subscribe","channel":"c","ref":1}`)
	require.Equal(t, told{Type: "error", Detail: "channel: more than 2 on one connection", Code: "bad_request", Ref: 1.0}, c.next("error"))
	c.say(`{"type":"unsubscribe","channel":"b"}`)
	c.next("unsubscribed")
	c.say(`{"type":"subscribe","channel":"c"}`)
	c.next("subscribed")
	c.next("state")
	w.publish("a", "still here")
	require.Equal(t, "still here", c.next().Payload)
}

// Channels are added and removed while messages flow: behind subscribed comes
// everything from its cursor on, behind unsubscribed nothing.
func TestAddAndRemoveInOrder(t *testing.T) {
	w := newWorld(t, Options{})
	c := w.dial("channel=a")
	c.next("ready")
	more := make(chan struct{}, 1000) // one for each message of a: what is published keeps pace
	var wg sync.WaitGroup
	wg.Go(func() {
		for range more {
			w.publish("a", "x")
			w.publish("b", "x")
		}
	})
	defer wg.Wait()
	defer close(more)
	for range 50 {
		more <- struct{}{}
	}
	at := map[string]uint64{}
	for range 20 {
		c.say(`{"type":"subscribe","channel":"b","ref":"b"}`)
		for in, left := false, 20; left > 0; {
			f := c.next("message", "subscribed", "unsubscribed", "gap", "error")
			switch f.Type {
			case "subscribed":
				in = true
				id, err := stream.ParseID(f.Cursor)
				require.NoError(t, err)
				at["b"] = id.N
			case "message":
				id, err := stream.ParseID(f.ID)
				require.NoError(t, err)
				require.True(t, f.Channel == "a" || in, "a message outside its subscription")
				if last, ok := at[f.Channel]; ok {
					require.Equal(t, last+1, id.N, f.Channel)
				}
				at[f.Channel] = id.N
				if f.Channel == "a" {
					more <- struct{}{}
				} else {
					if left--; left == 10 {
						c.say(`{"type":"unsubscribe","channel":"b","ref":"b"}`)
					} else if left == 0 {
						left = 1 // until unsubscribed
					}
				}
			case "unsubscribed":
				require.Equal(t, "b", f.Ref)
				in, left = false, 0
			default:
				require.Fail(t, f.Type)
			}
		}
	}
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

// A violation is answered by a close frame and a FIN, not by a reset that would
// take the close frame with it, though the client has sent more.
func TestViolationOnTheWire(t *testing.T) {
	w := newWorld(t, Options{})
	for range 20 {
		c := w.open("channel=a")
		c.next("ready")
		c.send(unmasked(final|opText, "x"), masked(final|opText, strings.Repeat("more", 10_000)))
		require.Equal(t, "close 1002", c.next("close 1002").kind())
		c.ends()
	}
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

// The closing handshake from both sides, as another implementation sees it.
func TestCloseHandshake(t *testing.T) {
	t.Run("by the client", func(t *testing.T) {
		w := newWorld(t, Options{})
		c := w.dial("channel=a")
		c.next("ready")
		require.NoError(t, c.conn.Close(websocket.StatusNormalClosure, "bye"))
		w.handler.Wait()
		require.Zero(t, w.broker.Stats().Subscriptions)
	})
	t.Run("by a drain", func(t *testing.T) {
		w := newWorld(t, Options{})
		c := w.dial("channel=a")
		c.next("ready")
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.broker.Drain(t.Context(), 50*time.Millisecond) })
		c.next("move")
		require.Equal(t, websocket.StatusGoingAway, c.closed())
		wg.Wait()
		w.handler.Wait()
	})
	t.Run("by the end of the channel", func(t *testing.T) {
		w := newWorld(t, Options{})
		_, err := w.log.Append(t.Context(), stream.Message{Channel: "a", Payload: "last", End: stream.EndMessage})
		require.NoError(t, err)
		c := w.dial("channel=a&lastEventId=earliest")
		require.Equal(t, "last", c.next("message").Payload)
		end := c.next()
		require.Equal(t, "end", end.Type)
		require.Equal(t, websocket.StatusNormalClosure, c.closed())
		again := w.dial("channel=a&lastEventId=" + end.ID)
		require.Equal(t, end, again.next("message", "end"))
		require.Equal(t, websocket.StatusNormalClosure, again.closed())
	})
}

// Another implementation's pings are answered.
func TestPing(t *testing.T) {
	w := newWorld(t, Options{})
	c := w.dial("")
	c.next("ready")
	ctx := c.conn.CloseRead(t.Context())
	for range 10 {
		require.NoError(t, c.conn.Ping(ctx))
	}
}

// Payloads come out as they went in.
func TestPayloads(t *testing.T) {
	w := newWorld(t, Options{})
	c := w.dial("channel=a")
	c.next("ready")
	for _, payload := range []string{
		"", "hi", "a\nb", "a\rb", "a\r\nb\n", "\x00\x01\x1f\x7f", "\u2028\u2029\u0085\uFEFF", "é€😀𝄞", `"\"\\`, "</script>",
		strings.Repeat("x", 125), strings.Repeat("y\n", 1<<15), strings.Repeat("é", 1<<19),
	} {
		done, err := w.log.Append(t.Context(), stream.Message{Channel: "a", Payload: payload, Event: "ev\n", Key: "k\u2028"})
		require.NoError(t, err)
		got := c.next("message")
		require.True(t, payload == got.Payload, "%.40q came as %.40q", payload, got.Payload)
		require.Equal(t, told{Type: "message", Channel: "a", ID: done.ID.String(), Event: "ev\n", Key: "k\u2028", Payload: got.Payload}, got)
	}
}

// Many clients leave at once, in every way, while messages flow.
func TestManyLeaveAtOnce(t *testing.T) {
	const clients = 300
	w := newWorld(t, Options{})
	conns := make([]*rawClient, clients)
	for i := range conns {
		conns[i] = w.open("channel=c" + strconv.Itoa(i%3))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				w.publish("c"+strconv.Itoa(i%3), "x")
			}
		}
	})
	for i, c := range conns {
		if i%2 == 0 {
			c.send(masked(final|opClose, closing(1000, "")))
			wg.Go(func() {
				for { // up to the close frame and the FIN
					if _, err := readFrame(c.in); err != nil {
						if !errors.Is(err, io.EOF) {
							t.Error(err)
						}
						return
					}
				}
			})
		} else {
			require.NoError(t, c.conn.Close())
		}
	}
	w.handler.Wait()
	close(stop)
	wg.Wait()
	require.Zero(t, w.broker.Stats().Subscriptions)
}

// Clients that come back again and again, each time by another way, have each
// message once and in order.
func TestExactlyOnceAcrossReconnects(t *testing.T) {
	const clients, messages, ahead = 8, 400, 30
	w := newWorld(t, Options{})
	read := make(chan struct{}, clients*messages)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; i <= messages; i++ {
			if i > ahead {
				for range clients {
					<-read
				}
			}
			w.publish("a", strconv.Itoa(i))
		}
	})
	for range clients {
		wg.Go(func() {
			cursor, next := "1-0", 1
			defer func() { // a client that failed holds nobody up
				for ; next <= messages; next++ {
					read <- struct{}{}
				}
			}()
			for round := 0; next <= messages; round++ {
				var c *rawClient
				if round%2 == 0 {
					c = w.open("channel=a&lastEventId=" + cursor)
				} else {
					c = w.open("")
					c.text(`{"type":"subscribe","channel":"a","after":%q}`, cursor)
				}
				for range 17 {
					if next > messages {
						break
					}
					m := c.next("message", "gap").fields(t)
					if m["payload"] != strconv.Itoa(next) {
						t.Errorf("got %v, want %d", m, next)
						return
					}
					next++
					cursor = m["id"].(string)
					read <- struct{}{}
				}
				_ = c.conn.Close()
			}
		})
	}
	wg.Wait()
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
