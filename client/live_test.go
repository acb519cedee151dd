package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/client"
	"rejoin/stream"
)

// transports are all there are.
var transports = []client.Transport{client.SSE, client.LongPoll, client.WebSocket}

// account is what a reader has of channels whose messages are numbered from 1.
type account struct {
	cursor string
	last   map[string]int
	total  int
}

// take notes a message, and fails unless it is the next of its channel.
func (a *account) take(e client.Event) error {
	a.cursor = e.Cursor()
	switch e := e.(type) {
	case client.Message:
		n, err := strconv.Atoi(e.Payload)
		if err != nil || n != a.last[e.Channel]+1 {
			return fmt.Errorf("%s: %q (%v) came after %d", e.Channel, e.Payload, e.ID, a.last[e.Channel])
		}
		a.last[e.Channel] = n
		a.total++
	case client.Gap:
		return fmt.Errorf("a gap was told: %+v", e)
	}
	return nil
}

// publishNumbers publishes 1 to n on each channel, some with each request.
func publishNumbers(ctx context.Context, c *client.Client, channels []string, n int) error {
	var messages []client.Publication
	for i := range n {
		for _, channel := range channels {
			messages = append(messages, client.Publication{Channel: channel, Payload: strconv.Itoa(i + 1)})
		}
		if i == n-1 || len(messages) >= 10 {
			if _, err := c.PublishBatch(ctx, messages); err != nil {
				return err
			}
			messages = nil
		}
	}
	return nil
}

// A subscription goes through a server that is killed and started again, time
// and again, with each message once and in order.
// Holds G119.
func TestSubscribeAcrossKilledServers(t *testing.T) {
	for _, transport := range transports {
		for _, channels := range [][]string{{"one"}, {"a", "b", "c"}} {
			t.Run(fmt.Sprint(transport, " ", len(channels)), func(t *testing.T) {
				const n, kills = 300, 5
				s := newServer(t)
				c := newClient(t, client.Options{URL: s.url()})
				ctx := within(t, patience)
				published := make(chan error, 1)
				a := account{last: map[string]int{}}
				breaks, step := 0, n*len(channels)/kills
				for event, err := range c.Subscribe(ctx, client.SubscribeOptions{Channels: channels, Transport: transport}) {
					require.NoError(t, err)
					require.NoError(t, a.take(event))
					if e, ok := event.(client.Disconnected); ok {
						require.Error(t, e.Err)
						breaks++
					}
					if _, ok := event.(client.Ready); ok && a.total == 0 && breaks == 0 {
						go func() { published <- publishNumbers(ctx, c, channels, n) }()
					}
					if _, ok := event.(client.Message); ok && a.total%step == step/2 {
						s.kill()
						require.NoError(t, s.start())
					}
					if a.total == n*len(channels) {
						break
					}
				}
				require.NoError(t, <-published)
				require.Equal(t, n*len(channels), a.total)
				// Some may come while a reader still has something, or is
				// between two polls.
				if transport != client.LongPoll {
					assert.Positive(t, breaks)
				}
			})
		}
	}
}

// A server that drains sends its readers elsewhere: nothing is missed, and
// nothing breaks.
// Holds G119.
func TestSubscribeThroughADrain(t *testing.T) {
	for _, transport := range []client.Transport{client.SSE, client.WebSocket} {
		t.Run(transport.String(), func(t *testing.T) {
			log := newLog(t)
			leaving, staying := newServerOn(t, log), newServerOn(t, log)
			c := newClient(t, client.Options{URLs: []string{leaving.url(), staying.url()}})
			writer := newClient(t, client.Options{URL: staying.url()})
			ctx := within(t, patience)
			writing, stop := context.WithCancel(ctx)
			var work sync.WaitGroup
			defer work.Wait()
			defer stop()
			a, connections, after := account{last: map[string]int{}}, 0, 0
			for event, err := range c.Subscribe(ctx, client.SubscribeOptions{Channels: []string{"news"}, Transport: transport}) {
				require.NoError(t, err)
				require.NoError(t, a.take(event))
				switch e := event.(type) {
				case client.Ready:
					if connections++; connections == 1 {
						work.Go(func() { assert.NoError(t, leaving.broker.Drain(ctx, 300*time.Millisecond)) })
						work.Go(func() {
							for n := 1; writing.Err() == nil; n++ {
								_, err := writer.Publish(ctx, "news", strconv.Itoa(n), nil)
								assert.NoError(t, err)
							}
						})
					}
				case client.Message:
					if connections == 2 {
						after++
					}
				case client.Disconnected:
					assert.Fail(t, "a break", "%v", e.Err)
				}
				if after == 50 {
					break
				}
			}
			require.Equal(t, 50, after)
		})
	}
}

// Readers change server and transport at every turn with nothing but the cursor
// of what they saw last, whatever that was: each message comes once, in order.
// Holds G119.
func TestHop(t *testing.T) {
	const readers, hops = 24, 20
	total := 3000
	if testing.Short() {
		total = 600
	}
	for _, channels := range [][]string{{"one"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprint(len(channels)), func(t *testing.T) {
			log := newLog(t)
			servers := []*server{newServerOn(t, log), newServerOn(t, log)}
			writer := newClient(t, client.Options{URLs: []string{servers[0].url(), servers[1].url()}})
			ctx := within(t, 2*patience)

			var crowd, ready sync.WaitGroup
			faults := make(chan error, readers)
			least := make(chan int, readers)
			ready.Add(readers)
			for i := range readers {
				clients := []*client.Client{newClient(t, client.Options{URL: servers[0].url()}), newClient(t, client.Options{URL: servers[1].url()})}
				crowd.Go(func() {
					a := account{last: map[string]int{}}
					turn := 0
					for ; a.total < total && ctx.Err() == nil; turn++ {
						leave := 1 + rand.N(2*total/hops/2) // events of this visit
						if turn == 0 {
							leave = 1
						}
						o := client.SubscribeOptions{Channels: channels, After: a.cursor, Transport: transports[(i+turn)%len(transports)]}
						for event, err := range clients[(i+turn/2)%2].Subscribe(ctx, o) {
							if err == nil {
								err = a.take(event)
							}
							if err != nil {
								faults <- fmt.Errorf("reader %d, turn %d, %v: %w", i, turn, o.Transport, err)
								if turn == 0 {
									ready.Done()
								}
								return
							}
							if leave--; leave == 0 || a.total == total {
								break
							}
						}
						if turn == 0 {
							ready.Done()
						}
					}
					if a.total != total {
						faults <- fmt.Errorf("reader %d: has %d of %d", i, a.total, total)
					}
					least <- turn
				})
			}
			ready.Wait()
			require.NoError(t, publishNumbers(ctx, writer, channels, total/len(channels)))
			crowd.Wait()
			close(faults)
			for err := range faults {
				t.Error(err)
			}
			close(least)
			for turns := range least {
				assert.GreaterOrEqual(t, turns, hops)
			}
		})
	}
}

// A loss is told, and reading goes on behind it.
// Holds G119.
func TestSubscribeIsToldALoss(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.String(), func(t *testing.T) {
			s := newServer(t)
			c := newClient(t, client.Options{URL: s.url()})
			ctx := within(t, patience)
			require.NoError(t, publishNumbers(ctx, c, []string{"news"}, 5))
			messages, _, err := collect(ctx, c, client.SubscribeOptions{Channels: []string{"news"}, After: client.Earliest, Transport: transport}, 2)
			require.NoError(t, err)
			require.NoError(t, s.log.Delete(ctx, "news"))
			_, err = c.Publish(ctx, "news", "6", nil)
			require.NoError(t, err)
			o := client.SubscribeOptions{Channels: []string{"news"}, After: messages[1].Cursor(), Transport: transport}
			rest, others, err := collect(ctx, c, o, 1)
			require.NoError(t, err)
			assert.Equal(t, "6", rest[0].Payload)
			var gaps []client.Gap
			for _, e := range others {
				if g, ok := e.(client.Gap); ok {
					gaps = append(gaps, g)
				}
			}
			require.Len(t, gaps, 1)
			assert.Equal(t, []any{"news", messages[1].ID, rest[0].ID, uint64(3), client.Trimmed},
				[]any{gaps[0].Channel, gaps[0].After, gaps[0].Next, gaps[0].Missed, gaps[0].Reason})

			// Deleted to the end: told at once, and only once.
			require.NoError(t, s.log.Delete(ctx, "news"))
			o.After = messages[1].Cursor()
			for event, err := range c.Subscribe(ctx, o) {
				require.NoError(t, err)
				if g, ok := event.(client.Gap); ok {
					assert.Equal(t, []any{stream.ID{}, uint64(4), rest[0].Cursor()}, []any{g.Next, g.Missed, g.Cursor()})
					o.After = g.Cursor()
					break
				}
			}
			for event, err := range c.Subscribe(ctx, o) {
				require.NoError(t, err)
				_, again := event.(client.Gap)
				assert.False(t, again, "%+v", event)
				if e, ok := event.(client.State); ok && e.Name == client.Live {
					break
				}
			}
		})
	}
}

// A channel that has ended ends its reader, and whoever comes later.
func TestSubscribeToTheEnd(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.String(), func(t *testing.T) {
			s := newServer(t)
			c := newClient(t, client.Options{URL: s.url()})
			ctx := within(t, patience)
			channels := []string{"a", "b"}
			require.NoError(t, publishNumbers(ctx, c, channels, 3))
			var ends []stream.ID
			for _, channel := range channels {
				done, err := s.log.Append(ctx, stream.Message{Channel: channel, End: stream.EndAlone})
				require.NoError(t, err)
				ends = append(ends, done.ID)
			}
			o := client.SubscribeOptions{Channels: channels, After: client.Earliest, Transport: transport}
			for _, wanted := range []int{6, 0} {
				a := account{last: map[string]int{}}
				told := map[string]stream.ID{}
				for event, err := range c.Subscribe(ctx, o) {
					require.NoError(t, err)
					require.NoError(t, a.take(event))
					if e, ok := event.(client.End); ok {
						assert.NotContains(t, told, e.Channel)
						told[e.Channel] = e.ID
					}
				}
				require.NoError(t, ctx.Err())
				assert.Equal(t, map[string]stream.ID{"a": ends[0], "b": ends[1]}, told)
				assert.Equal(t, wanted, a.total)
				o.After = a.cursor
			}
			_, err := c.Publish(ctx, "a", "more", nil)
			said, ok := errors.AsType[*client.Error](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, client.CodeEnded, said.Code)
		})
	}
}

// Payloads come through as they were published.
func TestPayloads(t *testing.T) {
	payloads := []string{"", " ", "\n", "a\nb\n", "a\r\nb\r", "\u2028\u2029", "\x00\x01", "😀ä", `"\`, "data: x\n\nid: 1", string(make([]byte, 500_000))}
	for _, transport := range transports {
		t.Run(transport.String(), func(t *testing.T) {
			s := newServer(t)
			c := newClient(t, client.Options{URL: s.url()})
			ctx := within(t, patience)
			for _, p := range payloads {
				_, err := c.Publish(ctx, "news", p, &client.PublishOptions{Event: "ä", Key: "k\n"})
				require.NoError(t, err)
			}
			messages, _, err := collect(ctx, c, client.SubscribeOptions{Channels: []string{"news"}, After: client.Earliest, Transport: transport}, len(payloads))
			require.NoError(t, err)
			for i, m := range messages {
				require.Equal(t, payloads[i], m.Payload)
				assert.Equal(t, []string{"ä", "k\n"}, []string{m.Event, m.Key})
				assert.WithinDuration(t, time.Now(), m.Time, time.Minute)
			}
		})
	}
}
