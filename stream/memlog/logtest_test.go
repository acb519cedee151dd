package memlog_test

import (
	"testing"
	"testing/synctest"

	"rejoin/stream"
	"rejoin/stream/logtest"
	"rejoin/stream/memlog"
)

// store is a memlog as the suite sees it. It lives in one process, so every
// "server" is the same log, and nothing can hurt it from behind.
type store struct{ log *memlog.Log }

func newStore(o logtest.Options) (logtest.Store, error) {
	return store{memlog.New(memlog.Options{
		Retention:      func(string) stream.Retention { return o.Retention },
		IdempotencyTTL: o.IdempotencyTTL,
	})}, nil
}

func (s store) Open() (stream.Log, error) { return s.log, nil }
func (s store) Faults() logtest.Faults    { return nil }
func (s store) Close() error              { return s.log.Close() }

func TestSuite(t *testing.T) { logtest.Run(t, newStore) }

// In a bubble: there the model's clock is this process's clock.
// Holds G20, G21.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { logtest.Model(t, newStore) })
}
