package ws

import (
	"io"
	"net"
	"slices"
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
