package redislog

import (
	"context"
	"errors"
	"time"
)

// topology knows who is the master of each part.
type topology interface {
	// parts is how many parts can be away on their own.
	parts() int
	// master is the address of the part's master, looked up if it is in doubt.
	// Its errors mean that nobody could tell.
	master(ctx context.Context, part int) (addr string, err error)
	// doubt: the part's master failed a call with err. It reports whether the
	// call was refused because another is master now, so that asking that one is
	// worth while.
	doubt(part int, err error) (again bool)
	// watch returns an error once another than addr is master though addr still
	// answers, nil when the context ends or nobody would know.
	watch(ctx context.Context, addr string) error
}

// lookupTimeout bounds asking one server who is master.
const lookupTimeout = 300 * time.Millisecond

var (
	errRefused  = errors.New("connections were refused a moment ago")
	errNoMaster = errors.New("no server could name the master")
)

func newTopology(t *target, partitions int) topology {
	switch t.kind {
	case "sentinel":
		return newSentinel(t)
	case "cluster":
		return newCluster(t, partitions)
	}
	return fixed(t.hosts[0])
}

// fixed is one server, master of all.
type fixed string

func (f fixed) parts() int                                  { return 1 }
func (f fixed) master(context.Context, int) (string, error) { return string(f), nil }
func (f fixed) doubt(int, error) bool                       { return false }
func (f fixed) watch(context.Context, string) error         { return nil }

// lock is a mutex whose wait ends with the context.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lock) give() { <-l }
