package ws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

// pipe is a connection over a pipe in fake time: a write ends when the other
// side has read it, so that what waits for what is exact.
type pipe struct {
	*rawClient
	log     *memlog.Log
	broker  *delivery.Broker
	handler *Handler
}

// bubble runs a test in fake time on a connection that reads the channels from
// where they are now. Nothing of the server may be left when the test is over.
func bubble(t *testing.T, o Options, grant Grant, channels []string, test func(t *testing.T, p *pipe)) {
	bubbleOn(t, func(l stream.Log) stream.Log { return l }, o, grant, channels, test)
}

// bubbleOn is bubble on a log that is not quite memlog.
func bubbleOn(t *testing.T, wrap func(stream.Log) stream.Log, o Options, grant Grant, channels []string, test func(t *testing.T, p *pipe)) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Options{})
		broker := delivery.New(wrap(log), delivery.Options{})
		o.Broker, o.Problem = broker, problem
		o.RetryMin, o.RetryMax = time.Second, time.Second
		h := New(o)
		var list []delivery.Channel
		for _, name := range channels {
			list = append(list, delivery.Channel{Name: name})
		}
		synctest.Wait()
		client, server := net.Pipe()
		p := &pipe{newRawClient(t, client), log, broker, h}
		h.start(server, nil, broker.Subscribe(list), slices.Clone(channels), 15*time.Second, grant)
		defer func() { // also when the test fails
			broker.Close()
			_ = client.Close()
			h.Wait()
			require.Zero(t, broker.Stats().Subscriptions)
			require.NoError(t, log.Close())
		}()
		test(t, p)
	})
}

func (p *pipe) publish(channel, payload string) stream.ID {
	p.t.Helper()
	done, err := p.log.Append(p.t.Context(), stream.Message{Channel: channel, Payload: payload})
	require.NoError(p.t, err)
	return done.ID
}

// live reads up to where the connection is live.
func (p *pipe) live() {
	p.t.Helper()
	require.Equal(p.t, "ready", p.next().kind())
	f := p.next()
	require.Equal(p.t, "live", f.fields(p.t)["state"])
}

// closed insists that the server has closed the connection.
func (p *pipe) closed() {
	p.t.Helper()
	_, err := p.in.ReadByte()
	require.ErrorIs(p.t, err, io.EOF)
}

var one = []string{"a"}

// seen is a frame and when it came, in fake time.
type seen struct {
	after time.Duration
	frame string
}

// collect reads everything until the connection ends, and answers pings if it
// is asked to.
func (p *pipe) collect(pong bool) (frames func() []seen) {
	var list []seen
	var wg sync.WaitGroup
	begun := time.Now()
	wg.Go(func() {
		for {
			f, err := readFrame(p.in)
			if err != nil {
				return
			}
			list = append(list, seen{time.Since(begun), f.kind()})
			if f.op == opPing && pong {
				if _, err := p.conn.Write(masked(final|opPong, f.payload)); err != nil {
					return
				}
			}
		}
	})
	return func() []seen { wg.Wait(); return list }
}

// A ping comes after a heartbeat in which nothing was sent, and only then.
func TestPingOnlyInSilence(t *testing.T) {
	bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		p.live()
		frames := p.collect(true)
		for range 5 { // 50 s of messages
			time.Sleep(10 * time.Second)
			p.publish("a", "x")
		}
		time.Sleep(31 * time.Second) // two pings
		p.publish("a", "x")
		time.Sleep(14 * time.Second)
		_ = p.conn.Close()
		m := func(s time.Duration) seen { return seen{s * time.Second, "message"} }
		ping := func(s time.Duration) seen { return seen{s * time.Second, "ping "} }
		require.Equal(t, []seen{m(10), m(20), m(30), m(40), m(50), ping(65), ping(80), m(81)}, frames())
	})
}

// A client that does not answer a ping within another heartbeat is cut off,
// also while messages flow to it.
func TestUnansweredPing(t *testing.T) {
	for name, flow := range map[string]bool{"silence": false, "messages": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
				p.live()
				frames := p.collect(false)
				time.Sleep(15 * time.Second)
				synctest.Wait()
				for range 14 {
					time.Sleep(time.Second)
					if flow {
						p.publish("a", "x")
					}
				}
				require.Equal(t, 1, p.broker.Stats().Subscriptions)
				time.Sleep(time.Second + closeWait)
				p.handler.Wait()
				all := frames()
				require.Equal(t, seen{15 * time.Second, "ping "}, all[0])
				require.Equal(t, seen{30 * time.Second, "close 4008"}, all[len(all)-1])
			})
		})
	}
}

// Any byte is a sign of life.
func TestAnyByteAnswersAPing(t *testing.T) {
	bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		p.live()
		frames := p.collect(false)
		for i := range 4 {
			time.Sleep(16 * time.Second)
			p.send(masked(final|opText, `{"type":"none"}`)[i : i+1]) // a frame that comes slowly
		}
		_ = p.conn.Close()
		for _, s := range frames() {
			require.Equal(t, "ping ", s.frame)
		}
	})
}

// The answer to a ping, and to a close, waits for the frame under way and for
// nothing else: not for the frames behind it.
func TestControlNeverWaitsBehindData(t *testing.T) {
	big := strings.Repeat("x", pieceBytes+1)
	bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		p.live()
		for range 10 {
			p.publish("a", big)
		}
		synctest.Wait() // the writer is in the first
		p.send(masked(final|opPing, "1"), masked(final|opPing, "2"))
		p.text(`{"type":"none","ref":1}`)
		synctest.Wait()
		var kinds []string
		for range 6 {
			f := p.next()
			kinds = append(kinds, f.kind())
		}
		require.Equal(t, []string{"message", "pong 2", "error", "message", "message", "message"}, kinds)
		synctest.Wait()
		p.send(masked(final|opClose, closing(3333, "")))
		synctest.Wait()
		require.Equal(t, "message", p.next().kind())
		require.Equal(t, "close 3333", p.next().kind())
		p.closed()
		p.handler.Wait()
	})
}

// Small frames share a write, of a bounded size.
func TestSmallFramesShareAWrite(t *testing.T) {
	bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		p.live()
		p.publish("a", "first")
		synctest.Wait() // the writer waits for the client
		for range 100 {
			p.publish("a", strings.Repeat("x", 900))
		}
		p.next("message")
		synctest.Wait() // it is in the next write
		p.send(masked(final|opPing, ""))
		synctest.Wait()
		before := 0
		for p.next().kind() == "message" {
			before++
		}
		require.Equal(t, 16, before)
	})
}

// Of a flood of pings the newest is answered.
func TestPingFlood(t *testing.T) {
	bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		p.live()
		p.publish("a", "x")
		synctest.Wait()
		for i := range 10_000 {
			p.send(masked(final|opPing, fmt.Sprint(i)))
		}
		synctest.Wait()
		p.publish("a", "y")
		require.Equal(t, "message", p.next().kind())
		require.Equal(t, "pong 9999", p.next().kind())
		require.Equal(t, "message", p.next().kind())
	})
}

// A client that asks and does not read is not read either, so that what is
// remembered for it has a bound; nothing of it is lost once it reads.
func TestAnswersAreBounded(t *testing.T) {
	for name, ask := range map[string]func(i int) []byte{
		"errors": func(i int) []byte { return masked(final|opText, fmt.Sprintf(`{"type":"x","ref":%d}`, i)) },
		"binary": func(int) []byte { return masked(final|opBinary, "x") },
		"un- and resubscribed": func(i int) []byte {
			return join(masked(final|opText, fmt.Sprintf(`{"type":"subscribe","channel":"b","ref":%d}`, i)),
				masked(final|opText, fmt.Sprintf(`{"type":"unsubscribe","channel":"b","ref":%d}`, i)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{Stuck: time.Minute}, Grant{}, one, func(t *testing.T, p *pipe) {
				p.live()
				p.publish("a", strings.Repeat("x", 1<<20)) // the writer waits for the client
				synctest.Wait()
				sent := 0
				var wg sync.WaitGroup
				wg.Go(func() {
					for i := range 1000 {
						if _, err := p.conn.Write(ask(i)); err != nil {
							return
						}
						sent++
					}
				})
				synctest.Wait()
				require.Less(t, sent, maxOwed+2)
				require.Equal(t, "message", p.next().kind())
				answers := 0
				for answers < 1000 {
					switch f := p.next("error", "unsubscribed"); {
					case f.kind() == "error" && name == "errors":
						require.EqualValues(t, answers, f.fields(t)["ref"])
					case f.kind() == "unsubscribed":
						require.EqualValues(t, answers, f.fields(t)["ref"])
					}
					answers++
				}
				wg.Wait()
			})
		})
	}
}

// A client that takes nothing for Stuck is cut off. Should it take anything
// then, it sees the frame under way to its end and a close frame.
func TestStuckClient(t *testing.T) {
	const stuck = 10 * time.Second
	t.Run("takes nothing", func(t *testing.T) {
		bubble(t, Options{Stuck: stuck}, Grant{}, one, func(t *testing.T, p *pipe) {
			p.live()
			p.publish("a", strings.Repeat("x", 50_000))
			begun := time.Now()
			p.handler.Wait()
			require.Equal(t, stuck+closeWait, time.Since(begun))
			p.closed()
		})
	})
	t.Run("takes the last", func(t *testing.T) {
		bubble(t, Options{Stuck: stuck}, Grant{}, one, func(t *testing.T, p *pipe) {
			p.live()
			for range 3 {
				p.publish("a", strings.Repeat("x", 50_000))
			}
			var some [20_000]byte
			_, err := io.ReadFull(p.conn, some[:]) // cut within the first frame
			require.NoError(t, err)
			time.Sleep(2*stuck + closeWait/2) // there was progress once
			p.in.Reset(io.MultiReader(bytes.NewReader(some[:]), p.conn))
			require.Equal(t, "message", p.next().kind())
			require.Equal(t, "close 4008", p.next().kind())
			p.send(masked(final|opClose, closing(4008, "")))
			p.closed()
		})
	})
	t.Run("is slow", func(t *testing.T) {
		bubble(t, Options{Stuck: stuck}, Grant{}, one, func(t *testing.T, p *pipe) {
			p.live()
			p.publish("a", strings.Repeat("x", 50_000))
			var buf [1000]byte
			for range 50 {
				time.Sleep(stuck - time.Second)
				_, err := io.ReadFull(p.conn, buf[:])
				require.NoError(t, err)
			}
		})
	})
}

// The client closes: its code comes back, and the server closes first.
func TestClientCloses(t *testing.T) {
	for _, payload := range []string{closing(1000, "bye"), closing(1001, ""), closing(4321, "é"), ""} {
		bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
			p.live()
			p.send(masked(final|opClose, payload))
			f := p.next()
			require.Equal(t, byte(opClose), f.op)
			require.Equal(t, payload[:min(len(payload), 2)], f.payload)
			p.closed()
			p.handler.Wait()
		})
	}
}

// The client is gone without a word.
func TestClientVanishes(t *testing.T) {
	bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		p.live()
		begun := time.Now()
		_ = p.conn.Close()
		p.handler.Wait()
		require.Zero(t, time.Since(begun))
	})
	t.Run("while it is written to", func(t *testing.T) {
		bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
			p.live()
			p.publish("a", "x")
			synctest.Wait()
			begun := time.Now()
			_ = p.conn.Close()
			p.handler.Wait()
			require.Zero(t, time.Since(begun))
		})
	})
}

// A drain tells the client to move, and closes with 1001 within the window; the
// client has a moment to answer the close.
func TestDrain(t *testing.T) {
	for name, answers := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
				p.live()
				begun := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := p.broker.Drain(t.Context(), 5*time.Second); err != nil {
						t.Error(err)
					}
				})
				move := p.next()
				require.Equal(t, "move", move.kind())
				require.EqualValues(t, 5000, move.fields(t)["within"])
				p.text(`{"type":"subscribe","channel":"b","ref":1}`)
				require.Equal(t, "subscribed", p.next().kind(), "it serves until it closes")
				p.next("close 1001")
				require.LessOrEqual(t, time.Since(begun), 5*time.Second)
				closed := time.Now()
				p.text(`{"type":"subscribe","channel":"c","ref":2}`) // too late, and no fault
				if answers {
					p.send(masked(final|opClose, closing(1001, "")))
				}
				p.closed()
				if answers {
					require.Zero(t, time.Since(closed))
				} else {
					require.Equal(t, closeWait, time.Since(closed))
				}
				wg.Wait()
			})
		})
	}
}

// Each violation is answered by its code, and nothing behind it is read.
func TestViolations(t *testing.T) {
	for name, c := range inputs {
		code, _, violation := strings.Cut(c.want[strings.LastIndex(strings.TrimSuffix(c.want, "\n"), "\n")+1:], " ")
		if !violation || len(code) != 4 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
				p.live()
				var wg sync.WaitGroup
				wg.Go(func() {
					// It stops taking when it has closed.
					_, _ = p.conn.Write(join(c.in, masked(final|opText, `{"type":"x","ref":"behind"}`)))
				})
				f := p.next()
				for f.op == opText { // the answer to what came before
					require.Equal(t, "error", f.kind())
					require.NotContains(t, f.payload, "behind")
					f = p.next()
				}
				require.Equal(t, "close "+code, f.kind())
				require.Greater(t, len(f.payload), 2, "with a reason")
				p.closed()
				wg.Wait()
			})
		})
	}
}

// The end of every channel ends the connection; an ended channel that is read
// no more does not hold it open.
func TestEndedChannels(t *testing.T) {
	end := func(p *pipe, m stream.Message) stream.ID {
		done, err := p.log.Append(p.t.Context(), m)
		require.NoError(p.t, err)
		return done.ID
	}
	t.Run("all", func(t *testing.T) {
		bubble(t, Options{}, Grant{}, []string{"a", "b"}, func(t *testing.T, p *pipe) {
			p.live()
			id := end(p, stream.Message{Channel: "a", End: stream.EndAlone})
			require.Equal(t, map[string]any{"type": "end", "channel": "a", "id": id.String()}, p.next().fields(t))
			p.publish("b", "on")
			require.Equal(t, "message", p.next().kind())
			id = end(p, stream.Message{Channel: "b", Payload: "last", End: stream.EndMessage})
			require.Equal(t, "last", p.next().fields(t)["payload"])
			require.Equal(t, map[string]any{"type": "end", "channel": "b", "id": id.String()}, p.next().fields(t))
			require.Equal(t, "close 1000", p.next().kind())
			p.send(masked(final|opClose, closing(1000, "")))
			p.closed()
		})
	})
	t.Run("the last that has not ended is given up", func(t *testing.T) {
		bubble(t, Options{}, Grant{}, []string{"a", "b"}, func(t *testing.T, p *pipe) {
			p.live()
			end(p, stream.Message{Channel: "a", End: stream.EndAlone})
			require.Equal(t, "end", p.next().kind())
			p.text(`{"type":"unsubscribe","channel":"b"}`)
			require.Equal(t, "unsubscribed", p.next().kind())
			require.Equal(t, "close 1000", p.next().kind())
		})
	})
	t.Run("none is left", func(t *testing.T) {
		bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
			p.live()
			p.text(`{"type":"unsubscribe","channel":"a"}`)
			require.Equal(t, "unsubscribed", p.next().kind())
			p.text(`{"type":"subscribe","channel":"b"}`)
			require.Equal(t, "subscribed", p.next().kind(), "a connection without channels stays open")
		})
	})
}

// guard lets a client read what begins with prefix.
func guard(prefix string) func(string) error {
	return func(channel string) error {
		if strings.HasPrefix(channel, prefix) {
			return nil
		}
		return errors.New("you may not read " + channel)
	}
}

// A token that runs out is told, and ends the connection; a new one in time
// keeps it.
func TestExpiry(t *testing.T) {
	auth := func(token string) (Grant, error) {
		switch token {
		case "longer":
			return Grant{CheckRead: guard("a"), Expires: time.Now().Add(time.Hour)}, nil
		case "for good":
			return Grant{}, nil
		case "other":
			return Grant{CheckRead: guard("b")}, nil
		}
		return Grant{}, errors.New("no such token")
	}
	short := func(test func(t *testing.T, p *pipe)) func(*testing.T) {
		return func(t *testing.T) {
			// A grant's time must be the bubble's, so it comes in-band.
			o := Options{Auth: func(token string) (Grant, error) {
				if token == "short" {
					return Grant{CheckRead: guard("a"), Expires: time.Now().Add(5 * time.Second)}, nil
				}
				return auth(token)
			}}
			bubble(t, o, Grant{}, one, func(t *testing.T, p *pipe) {
				p.live()
				p.text(`{"type":"auth","token":"short","ref":1}`)
				require.Equal(t, map[string]any{"type": "auth", "ref": 1.0}, p.next().fields(t))
				test(t, p)
			})
		}
	}
	t.Run("runs out", short(func(t *testing.T, p *pipe) {
		begun := time.Now()
		require.Equal(t, "expired", p.next().kind())
		require.Equal(t, "close 4001", p.next().kind())
		require.Equal(t, 5*time.Second, time.Since(begun))
		p.send(masked(final|opClose, closing(4001, "")))
		p.closed()
	}))
	t.Run("longer", short(func(t *testing.T, p *pipe) {
		p.text(`{"type":"auth","token":"longer"}`)
		require.Equal(t, `{"type":"auth"}`, p.next().payload)
		time.Sleep(10 * time.Second)
		p.publish("a", "x")
		require.Equal(t, "message", p.next().kind())
	}))
	t.Run("for good", short(func(t *testing.T, p *pipe) {
		p.text(`{"type":"auth","token":"for good"}`)
		require.Equal(t, "auth", p.next().kind())
		p.text(`{"type":"subscribe","channel":"b"}`)
		require.Equal(t, "subscribed", p.next().kind())
		p.next("state")
		time.Sleep(10 * time.Second)
		p.publish("a", "x")
		require.Equal(t, "message", p.next().kind())
	}))
	t.Run("refused", short(func(t *testing.T, p *pipe) {
		p.text(`{"type":"auth","token":"wrong","ref":"r"}`)
		e := p.next().fields(t)
		require.Equal(t, "no such token", e["detail"])
		require.Equal(t, "r", e["ref"])
		require.Equal(t, "expired", p.next().kind(), "the old one still counts")
	}))
	t.Run("of other channels", short(func(t *testing.T, p *pipe) {
		p.text(`{"type":"auth","token":"other","ref":"r"}`)
		e := p.next().fields(t)
		require.Equal(t, "error", e["type"])
		require.Equal(t, "you may not read a", e["detail"])
		require.Equal(t, "close 4003", p.next().kind())
	}))
}

// What a client may not read it cannot add; the connection goes on.
func TestNotAllowed(t *testing.T) {
	bubble(t, Options{}, Grant{CheckRead: guard("a")}, one, func(t *testing.T, p *pipe) {
		p.live()
		p.text(`{"type":"subscribe","channel":"b","ref":1}`)
		e := p.next().fields(t)
		require.Equal(t, "you may not read b", e["detail"])
		require.EqualValues(t, 1, e["ref"])
		p.text(`{"type":"subscribe","channel":"ab","ref":2}`)
		require.Equal(t, "subscribed", p.next().kind())
	})
}

// awayLog is a log that cannot be heard until it is back.
type awayLog struct {
	stream.Log
	back chan struct{}
}

func (l awayLog) Listen(ctx context.Context, part int) (stream.Session, error) {
	select {
	case <-l.back:
		return l.Log.Listen(ctx, part)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// While the log is away a connection is accepted and told stale; what a client
// asks meanwhile is answered in order when it is back.
func TestLogAway(t *testing.T) {
	back := make(chan struct{})
	synctestLog := func(l stream.Log) stream.Log {
		back = make(chan struct{}) // the bubble's own
		return awayLog{l, back}
	}
	bubbleOn(t, synctestLog, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		require.Equal(t, "stale", p.next("state").fields(t)["state"])
		p.text(`{"type":"subscribe","channel":"b","ref":"B"}`)
		p.text(`{"type":"subscribe","channel":"c","ref":"C"}`)
		p.text(`{"type":"unsubscribe","channel":"c","ref":"-C"}`)
		require.Equal(t, "-C", p.next("unsubscribed").fields(t)["ref"])
		p.send(masked(final|opPing, "alive"))
		p.next("pong alive")
		p.publish("b", "while away")
		close(back)
		ready := p.next("ready").fields(t)
		require.Contains(t, ready["channels"], "a")
		require.NotContains(t, ready["channels"], "b", "it has its own answer")
		subscribed := p.next("subscribed").fields(t)
		require.Equal(t, "b", subscribed["channel"])
		require.Equal(t, "B", subscribed["ref"])
		require.Equal(t, "while away", p.next("message").fields(t)["payload"])
		require.Equal(t, "live", p.next("state").fields(t)["state"])
	})
}

// brokenLog has one channel that cannot be read.
type brokenLog struct{ stream.Log }

type brokenSession struct{ stream.Session }

func (l brokenLog) Listen(ctx context.Context, part int) (stream.Session, error) {
	s, err := l.Log.Listen(ctx, part)
	return brokenSession{s}, err
}

func (s brokenSession) Read(ctx context.Context, queries []stream.Query) ([]stream.Page, error) {
	pages, err := s.Session.Read(ctx, queries)
	for i := range pages {
		if pages[i].Channel == "broken" {
			pages[i].Err = &stream.Error{Op: "read", Channel: "broken", Kind: stream.ErrBroken}
		}
	}
	return pages, err
}

// A channel that cannot be read is told, and ends the connection.
func TestBrokenChannel(t *testing.T) {
	wrap := func(l stream.Log) stream.Log { return brokenLog{l} }
	bubbleOn(t, wrap, Options{}, Grant{}, []string{"broken"}, func(t *testing.T, p *pipe) {
		require.Equal(t, "read broken: log broken", p.next("error").fields(t)["detail"])
		require.Equal(t, "close 1011", p.next().kind())
	})
	bubbleOn(t, wrap, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		p.live()
		p.text(`{"type":"subscribe","channel":"broken"}`)
		require.Equal(t, "read broken: log broken", p.next("error").fields(t)["detail"])
		require.Equal(t, "close 1011", p.next().kind())
	})
}
