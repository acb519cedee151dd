package redislog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

const (
	// lookupTimeout bounds asking one server who is master.
	lookupTimeout = 300 * time.Millisecond
	// lookupEvery is the least time between two questions: what was answered a
	// moment ago serves though it is in doubt again.
	lookupEvery = 100 * time.Millisecond
)

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

// roster is the servers that can be asked who is master. One that did not answer
// well is asked last next time, so that a few dead ones do not use up the time
// there is.
type roster struct {
	mu    sync.Mutex // guards hosts
	hosts []string
}

// maxRoster bounds a roster.
const maxRoster = 64

func (r *roster) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.hosts)
}

func (r *roster) add(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if host != "" && !slices.Contains(r.hosts, host) && len(r.hosts) < maxRoster {
		r.hosts = append(r.hosts, host)
	}
}

func (r *roster) putLast(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.hosts, host); i >= 0 {
		r.hosts = append(slices.Delete(r.hosts, i, i+1), host)
	}
}

// ask asks one after the other until f is content with an answer.
func (r *roster) ask(ctx context.Context, f func(ctx context.Context, host string) error) error {
	errs := []error{errNoMaster}
	for _, host := range r.list() {
		one, cancel := context.WithTimeout(ctx, lookupTimeout)
		err := f(one, host)
		cancel()
		if err == nil {
			return nil
		}
		r.putLast(host)
		errs = append(errs, fmt.Errorf("%s: %w", host, err))
	}
	return errors.Join(errs...)
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
