package sse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log, a broker and a server of event streams on loopback.
type world struct {
	t      *testing.T
	log    *memlog.Log
	broker *delivery.Broker
	url    string
}

func newWorld(t *testing.T, o Options) *world {
	log := memlog.New(memlog.Options{})
	w := &world{t: t, log: log, broker: delivery.New(log, delivery.Options{})}
	o.Broker, o.Problem = w.broker, problem
	h := New(o)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		req, err := delivery.ParseRequest(r.URL.RawQuery, r.Header.Get("Last-Event-ID"), delivery.RequestRules{Now: log.Now(), LostCursor: true})
		if err == nil {
			err = h.Serve(out, r, req)
		}
		if err == nil {
			return // the connection is a pump's
		}
		http.Error(out, err.Error(), http.StatusBadRequest)
	}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv.Config.Protocols = protocols
	srv.Start()
	w.url = srv.URL
	t.Cleanup(func() {
		w.broker.Close() // ends the streams, for which srv.Close waits
		srv.Close()
		require.NoError(t, log.Close())
	})
	return w
}

// gone waits until no stream is left.
func (w *world) gone() {
	require.Eventually(w.t, func() bool { return w.broker.Stats().Subscriptions == 0 }, 30*time.Second, time.Millisecond)
}

func (w *world) publish(channel, payload string) stream.ID {
	done, err := w.log.Append(w.t.Context(), stream.Message{Channel: channel, Payload: payload})
	require.NoError(w.t, err)
	return done.ID
}

// protocols runs a test over HTTP/1.1 and over HTTP/2.
func protocols(t *testing.T, test func(t *testing.T, c *http.Client)) {
	for _, name := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(name, func(t *testing.T) {
			p := new(http.Protocols)
			p.SetHTTP1(name == "HTTP/1.1")
			p.SetUnencryptedHTTP2(name == "HTTP/2")
			tr := &http.Transport{Protocols: p}
			t.Cleanup(tr.CloseIdleConnections)
			test(t, &http.Client{Transport: tr})
		})
	}
}

// client reads one stream.
type client struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
	all  strings.Builder
}

func (w *world) open(c *http.Client, query, lastEventID string) *client {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+"/?"+query, nil)
	require.NoError(w.t, err)
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := c.Do(req)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return &client{t: w.t, resp: resp, in: bufio.NewReader(resp.Body)}
}

// next is the next event, of the kinds given if any are.
func (c *client) next(kinds ...string) event {
	c.t.Helper()
	for {
		line, err := c.in.ReadString('\n')
		require.NoError(c.t, err, "so far: %s", c.all.String())
		c.all.WriteString(line)
		if line != "\n" {
			continue
		}
		events := parse(c.all.String()).events
		if len(events) == 0 {
			continue
		}
		e := events[len(events)-1]
		if len(kinds) == 0 || strings.Contains(strings.Join(kinds, " "), e.Type) {
			return e
		}
	}
}

// The answer is there before the first message, whole as a browser wants it.
// Holds G31, G37.
func TestHeadersAtOnce(t *testing.T) {
	w := newWorld(t, Options{RetryMin: 700 * time.Millisecond, RetryMax: 900 * time.Millisecond})
	protocols(t, func(t *testing.T, hc *http.Client) {
		c := w.open(hc, "channel=silent", "")
		require.Equal(t, 200, c.resp.StatusCode)
		require.Equal(t, []string{"text/event-stream"}, c.resp.Header["Content-Type"])
		require.Equal(t, []string{"no-store, no-transform"}, c.resp.Header["Cache-Control"])
		require.Equal(t, "no", c.resp.Header.Get("X-Accel-Buffering"))
		require.Empty(t, c.resp.Header.Get("Content-Length"))
		require.Empty(t, c.resp.Header.Get("Content-Encoding"))
		if c.resp.ProtoMajor == 1 {
			require.Equal(t, []string{"chunked"}, c.resp.TransferEncoding)
		}
		ready := c.next()
		require.Equal(t, event{"rejoin.ready", `{"channels":{"silent":{"cursor":"1-0","replay":0}},"cursor":"1-0"}`, "1-0"}, ready)
		p := parse(c.all.String())
		require.GreaterOrEqual(t, p.retry, 700)
		require.LessOrEqual(t, p.retry, 900)
		require.True(t, strings.HasPrefix(c.all.String(), "retry: "))
		require.Empty(t, p.comments)
	})
}

// Holds G38.
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

// Holds G44.
func TestPadding(t *testing.T) {
	w := newWorld(t, Options{})
	c := w.open(http.DefaultClient, "channel=a&padding=true", "")
	defer http.DefaultClient.CloseIdleConnections()
	c.next("rejoin.ready")
	require.True(t, strings.HasPrefix(c.all.String(), ":"+strings.Repeat(" ", 2046)+"\nretry: "))
}

// What is published flows, and a client that comes back with the id of any
// event goes on behind it.
// Holds G49.
func TestLiveAndResume(t *testing.T) {
	w := newWorld(t, Options{})
	protocols(t, func(t *testing.T, hc *http.Client) {
		channel := strings.ReplaceAll(strings.ToLower(t.Name()), "/", ".")
		c := w.open(hc, "channel="+channel, "")
		ready := c.next("rejoin.ready")
		first := w.publish(channel, "one\ntwo")
		require.Equal(t, event{"message", "one\ntwo", first.String()}, c.next("message"))
		second := w.publish(channel, "three")
		require.Equal(t, event{"message", "three", second.String()}, c.next("message"))

		again := w.open(hc, "channel="+channel, first.String())
		require.Equal(t, event{"message", "three", second.String()}, again.next("message"))
		fromReady := w.open(hc, "channel="+channel, ready.ID)
		require.Equal(t, first.String(), fromReady.next("message").ID, "a client that had no message yet has the position")

		lost := w.open(hc, "channel="+channel, "not a cursor")
		gap := lost.next("rejoin.gap")
		require.Contains(t, gap.Data, `"reason":"reset"`)
		require.Equal(t, first.String(), lost.next("message").ID)
		require.Equal(t, second.String(), lost.next("message").ID)
	})
}

func TestSeveralChannelsOnOneConnection(t *testing.T) {
	w := newWorld(t, Options{})
	protocols(t, func(t *testing.T, hc *http.Client) {
		prefix := strings.ReplaceAll(strings.ToLower(t.Name()), "/", ".")
		query := fmt.Sprintf("channel=%[1]s.a&channel=%[1]s.b&format=json", prefix)
		c := w.open(hc, query, "")
		c.next("rejoin.ready")
		w.publish(prefix+".a", "1")
		one := c.next("message")
		require.True(t, strings.HasPrefix(one.ID, "1~"))
		w.publish(prefix+".b", "2")
		w.publish(prefix+".a", "3")

		again := w.open(hc, query, one.ID)
		got := map[string]string{}
		for range 2 {
			var m struct{ Channel, Payload string }
			require.NoError(t, json.Unmarshal([]byte(again.next("message").Data), &m))
			got[m.Channel] += m.Payload
		}
		require.Equal(t, map[string]string{prefix + ".b": "2", prefix + ".a": "3"}, got)
	})
}

func TestRefusesBeforeAnythingIsWritten(t *testing.T) {
	w := newWorld(t, Options{})
	defer http.DefaultClient.CloseIdleConnections()
	for _, query := range []string{
		"channel=a&format=xml", "channel=a&format=", "channel=a&padding=1", "channel=a&padding=",
		"channel=a&channel=b", "channel=a&channel=b&format=raw",
	} {
		c := w.open(http.DefaultClient, query, "")
		require.Equal(t, 400, c.resp.StatusCode, query)
		body, err := io.ReadAll(c.resp.Body)
		require.NoError(t, err)
		require.Regexp(t, "^(format|padding): want|^format: several", string(body))
	}
	require.Zero(t, w.broker.Stats().Subscriptions)
}

// The end is never clean: some clients take a clean end for the last word.
// Holds G43.
func TestNoCleanEnd(t *testing.T) {
	protocols(t, func(t *testing.T, hc *http.Client) {
		w := newWorld(t, Options{})
		c := w.open(hc, "channel=a", "")
		c.next("rejoin.ready")
		go w.broker.Close()
		_, err := io.ReadAll(c.in)
		require.Error(t, err)
		if c.resp.ProtoMajor == 1 {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		} else {
			require.ErrorContains(t, err, "stream error")
		}
	})
	t.Run("on the wire", func(t *testing.T) {
		w := newWorld(t, Options{})
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "GET /?channel=a HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		in := bufio.NewReader(conn)
		for line := ""; line != "event: rejoin.ready\n"; {
			line, err = in.ReadString('\n')
			require.NoError(t, err)
		}
		go w.broker.Close()
		rest, err := io.ReadAll(in)
		require.NoError(t, err, "a FIN, not a RST that would take the last frames with it")
		require.False(t, bytes.HasSuffix(rest, []byte("0\r\n\r\n")), "%q", rest)
	})
}

// The client's FIN means it is gone, at once and without a write.
// Holds G46.
func TestClientLeaves(t *testing.T) {
	w := newWorld(t, Options{})
	protocols(t, func(t *testing.T, hc *http.Client) {
		c := w.open(hc, "channel=a", "")
		c.next("rejoin.ready")
		require.Equal(t, 1, w.broker.Stats().Subscriptions)
		require.NoError(t, c.resp.Body.Close())
		w.gone()
		require.Zero(t, w.broker.Stats().Subscriptions)
	})
	t.Run("half close", func(t *testing.T) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "GET /?channel=a HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		_, err = bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		w.gone()
	})
}

// A reader that takes nothing for Stuck is ended; what it missed stays in the log.
// Holds G47.
func TestStuckReader(t *testing.T) {
	protocols(t, func(t *testing.T, hc *http.Client) {
		w := newWorld(t, Options{Stuck: 50 * time.Millisecond})
		c := w.open(hc, "channel=a", "")
		c.next("rejoin.ready")
		big := strings.Repeat("x", 1<<20)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := w.log.Append(ctx, stream.Message{Channel: "a", Payload: big}); err != nil {
					return
				}
			}
		})
		w.gone()
		cancel()
		wg.Wait()
		require.Zero(t, w.broker.Stats().Subscriptions)
	})
}

// Many readers leave at once while messages flow.
// Holds G48.
func TestManyLeaveAtOnce(t *testing.T) {
	const readers = 300
	w := newWorld(t, Options{})
	addr := strings.TrimPrefix(w.url, "http://")
	conns := make([]net.Conn, readers)
	for i := range conns {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "GET /?channel=c"+strconv.Itoa(i%3)+" HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
		conns[i] = conn
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
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
	w.gone()
	close(stop)
	wg.Wait()
	require.Zero(t, w.broker.Stats().Subscriptions)
}

// A browser that comes back to channels that have all ended at its cursor is
// told so by the one status that stops it; anybody with something to be told is
// answered with a stream.
// Holds G122.
func TestNoContentAtTheEnd(t *testing.T) {
	w := newWorld(t, Options{})
	protocols(t, func(t *testing.T, hc *http.Client) {
		name := fmt.Sprintf("job%p", hc)
		first := w.publish(name, "half")
		end, err := w.log.Append(t.Context(), stream.Message{Channel: name, End: stream.EndAlone})
		require.NoError(t, err)
		status := func(query, cursor string) int {
			req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/?"+query, nil)
			require.NoError(t, err)
			req.Header.Set("Last-Event-ID", cursor)
			resp, err := hc.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode
		}
		require.Equal(t, 204, status("channel="+name, end.ID.String()))
		require.Equal(t, 200, status("channel="+name, first.String()))
		require.Equal(t, 200, status("channel="+name, "earliest"))
		require.Equal(t, 200, status("channel="+name, ""))
		require.Equal(t, 200, status("channel="+name+"&channel=other&format=json", "1~"))
	})
	w.gone()
}
