package ws

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// A connection that begins without channels is ready at once, and serves what
// is subscribed to.
// Holds G113.
func TestBeginsWithoutChannels(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{RetryMin: 700 * time.Millisecond, RetryMax: 900 * time.Millisecond})
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
	})
}

func TestLiveAndResume(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{})
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
	})
}

// With several channels a client keeps an id for each, or builds the cursor.
func TestSeveralChannels(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{})
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
	})
}

// Faults in a client's frames are told, with its ref, and the connection goes on.
// Holds G114.
func TestFaultyFrames(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{MaxChannels: 2})
		c := w.dial("channel=a")
		c.next("ready")
		c.next("state")
		for frame, detail := range map[string]string{
			`hello`:                                "message: want a JSON object",
			`{}`:                                   "type: want subscribe, unsubscribe or auth",
			`{"type":"publish"}`:                   "messages are published by POST",
			`{"type":"message"}`:                   "type: want subscribe, unsubscribe or auth",
			`{"type":"auth"}`:                      "auth: this server asks nobody who they are",
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
	})
}

// Channels are added and removed while messages flow: behind subscribed comes
// everything from its cursor on, behind unsubscribed nothing.
// Holds G113.
func TestAddAndRemoveInOrder(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{})
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
	})
}

// A violation is answered by a close frame and a FIN, not by a reset that would
// take the close frame with it, though the client has sent more.
// Holds G114.
func TestViolationOnTheWire(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{})
		for range 20 {
			c := w.open("channel=a")
			c.next("ready")
			c.send(unmasked(final|opText, "x"), masked(final|opText, strings.Repeat("more", 10_000)))
			require.Equal(t, "close 1002", c.next("close 1002").kind())
			c.ends()
		}
	})
}

// The closing handshake from both sides, as another implementation sees it.
func TestCloseHandshake(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		t.Run("by the client", func(t *testing.T) {
			w := newWorld(Options{})
			c := w.dial("channel=a")
			c.next("ready")
			require.NoError(t, c.conn.Close(websocket.StatusNormalClosure, "bye"))
			w.handler.Wait()
			require.Zero(t, w.broker.Stats().Subscriptions)
		})
		t.Run("by a drain", func(t *testing.T) {
			w := newWorld(Options{})
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
			w := newWorld(Options{})
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
	})
}

// Another implementation's pings are answered.
func TestPing(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{})
		c := w.dial("")
		c.next("ready")
		ctx := c.conn.CloseRead(t.Context())
		for range 10 {
			require.NoError(t, c.conn.Ping(ctx))
		}
	})
}

// Payloads come out as they went in.
// Holds G112.
func TestPayloads(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{})
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
	})
}

// Many clients leave at once, in every way, while messages flow.
func TestManyLeaveAtOnce(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		const clients = 300
		w := newWorld(Options{})
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
	})
}

// Clients that come back again and again, each time by another way, have each
// message once and in order.
func TestExactlyOnceAcrossReconnects(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		const clients, messages, ahead = 8, 400, 30
		w := newWorld(Options{})
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
	})
}

// A client that takes nothing for Stuck is ended; what it had begun to take is
// whole frames, up to where it was cut.
func TestStuckOverTCP(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{Stuck: 50 * time.Millisecond})
		c := w.open("channel=a")
		c.next("ready")
		ended := make(chan struct{})
		go func() {
			w.handler.Wait()
			close(ended)
		}()
		big := strings.Repeat("x", 1<<20)
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			default:
				w.publish("a", big)
			}
		}
		for {
			f, err := readFrame(c.in)
			if err != nil {
				break
			}
			if f.op == opText {
				f.fields(t)
			} else {
				require.Equal(t, "close 4008", f.kind())
			}
		}
	})
}

// A client that asks without end and reads nothing is ended too.
// Holds G116.
func TestFloodWithoutReading(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{Stuck: 50 * time.Millisecond})
		c := w.open("channel=a")
		flood := bytes.Repeat(masked(final|opText, `{"type":"x"}`), 1000)
		for {
			if _, err := c.conn.Write(flood); err != nil {
				break
			}
		}
		w.handler.Wait()
	})
}

// A client that goes on asking when the server has closed, and never closes,
// has closeWait.
func TestAsksAfterTheClose(t *testing.T) {
	eachWriter(t, func(t *testing.T, newWorld func(Options) *world) {
		w := newWorld(Options{})
		c := w.open("channel=a")
		c.next("ready")
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.broker.Drain(t.Context(), time.Millisecond) })
		c.next("close 1001")
		c.send(bytes.Repeat(masked(final|opText, `{"type":"x"}`), 1000))
		c.ends()
		wg.Wait()
		w.handler.Wait()
	})
}

// The pump's clock is real: pings come when nothing was sent for a heartbeat,
// and a client that does not answer is closed.
func TestPumpPings(t *testing.T) {
	w := newWorld(t, Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	server, err := ln.Accept()
	require.NoError(t, err)
	w.handler.start(server, nil, w.broker.Subscribe(nil), nil, 100*time.Millisecond, Grant{})
	c := newRawClient(t, conn)
	require.Equal(t, "ready", c.next().kind())
	for range 2 {
		require.Equal(t, "ping ", c.next().kind())
		c.send(masked(final|opPong, ""))
	}
	require.Equal(t, "close 4008", c.next("close 4008").kind())
	c.send(masked(final|opClose, closing(4008, "")))
	w.handler.Wait()
}
