package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rejoin/api"
	"rejoin/client"
	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// server is a whole server on loopback. It can be killed and started again, on
// the same address and the same log.
type server struct {
	log     stream.Log
	address string
	o       api.Options
	http    *http.Server
	broker  *delivery.Broker
	serving sync.WaitGroup
}

// startServer starts a server on the log.
func startServer(log stream.Log) (*server, error) {
	s := &server{log: log, address: "127.0.0.1:0", o: api.Options{RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond}}
	return s, s.start()
}

func (s *server) url() string { return "http://" + s.address }

func (s *server) start() error {
	socket, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	s.address = socket.Addr().String()
	s.broker = delivery.New(s.log, delivery.Options{})
	o := s.o
	o.Log, o.Broker = s.log, s.broker
	s.http = api.NewServer(api.New(o).Public, 0)
	s.serving.Go(func() { _ = s.http.Serve(socket) })
	return nil
}

// kill cuts every connection at once, as the end of a process does.
func (s *server) kill() {
	_ = s.http.Close()
	s.broker.Close()
	s.serving.Wait()
}

// newServer is a server of a log of its own.
func newServer(t *testing.T) *server { return newServerOn(t, newLog(t)) }

func newServerOn(t *testing.T, log stream.Log) *server {
	t.Helper()
	s, err := startServer(log)
	require.NoError(t, err)
	t.Cleanup(s.kill)
	return s
}

func newLog(t *testing.T) stream.Log {
	log := memlog.New(memlog.Options{Retention: func(string) stream.Retention {
		return stream.Retention{MaxMessages: 100_000, MaxAge: time.Hour, ChannelTTL: time.Hour}
	}})
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return log
}

// newClient is a client that is closed with the test.
func newClient(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// within is the test's context, bounded.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// collect reads until it has n messages, and fails at an error.
func collect(ctx context.Context, c *client.Client, o client.SubscribeOptions, n int) (messages []client.Message, others []client.Event, err error) {
	for event, err := range c.Subscribe(ctx, o) {
		if err != nil {
			return messages, others, err
		}
		switch e := event.(type) {
		case client.Message:
			if messages = append(messages, e); len(messages) == n {
				return messages, others, nil
			}
		default:
			others = append(others, e)
		}
	}
	if ctx.Err() != nil {
		return messages, others, ctx.Err()
	}
	return messages, others, errors.New("the subscription is over")
}
