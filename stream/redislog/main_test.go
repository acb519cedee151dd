package redislog_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rejoin/stream"
	"rejoin/stream/redislog"
	"rejoin/stream/redislog/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a log on a server and closes it with the test.
func open(t testing.TB, o redislog.Options) *redislog.Log {
	t.Helper()
	l, err := redislog.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// start runs a server and opens n logs on it.
func start(t testing.TB, n int, args ...string) (*redistest.Server, []*redislog.Log) {
	t.Helper()
	s := redistest.Start(t, args...)
	var logs []*redislog.Log
	for range n {
		logs = append(logs, open(t, redislog.Options{URL: s.URL()}))
	}
	return s, logs
}

func publish(t testing.TB, l *redislog.Log, channel, payload string) stream.ID {
	t.Helper()
	a, err := l.Append(t.Context(), stream.Message{Channel: channel, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return a.ID
}

func read(t testing.TB, l *redislog.Log, q stream.Query) stream.Page {
	t.Helper()
	p, err := l.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// listen opens a session and closes it with the test.
func listen(t testing.TB, l *redislog.Log) stream.Session {
	t.Helper()
	s, err := l.Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// wait waits for marks, at most so long.
func wait(t testing.TB, s stream.Session, d time.Duration) ([]stream.Mark, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return s.Wait(ctx)
}

func texts(p stream.Page) (s []string) {
	for _, e := range p.Entries {
		s = append(s, e.Payload)
	}
	return s
}

func startServer(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, args...)
}
