package ws

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A ping comes after a heartbeat in which nothing was sent, and only then.
// Holds G115.
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
// Holds G115.
func TestUnansweredPing(t *testing.T) {
	// Ten times: two clocks run out at once, and either may be seen first.
	for name, flow := range map[string]bool{"silence": false, "messages": true} {
		for range 10 {
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
				require.Equal(t, seen{30 * time.Second, "close 4008"}, all[len(all)-1], name)
			})
		}
	}
}

// Any byte is a sign of life.
// Holds G115.
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
// Holds G116.
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
// Holds G116.
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
				require.Less(t, sent, 70)
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
// Holds G115.
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

// endless is a connection whose client has sent its FIN and may still read.
type endless struct {
	net.Conn
	fin chan struct{}
}

func (c endless) Read([]byte) (int, error) {
	<-c.fin
	return 0, io.EOF
}

// A FIN without a close frame is the end, also of a write under way.
func TestFINWhileWriting(t *testing.T) {
	bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		client, server := net.Pipe()
		defer client.Close()
		fin := make(chan struct{})
		p.handler.start(endless{server, fin}, nil, p.broker.Subscribe(nil), nil, 15*time.Second, Grant{})
		synctest.Wait() // ready is being written
		begun := time.Now()
		close(fin)
		_ = p.conn.Close()
		p.handler.Wait()
		require.Zero(t, time.Since(begun))
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
// Holds G114.
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
