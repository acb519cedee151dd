package redislog

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

const (
	// inFlight is how many calls one server is asked at a time; more wait. An
	// append takes Redis some 20 µs, so this is plenty.
	inFlight = 32
	// redial is the least time between two clients for a server that refuses
	// connections; in between calls fail at once.
	redial = 100 * time.Millisecond
)

// nodes are the clients for appends, deletes and history, one a server.
type nodes struct {
	target  *target
	timeout time.Duration

	mu     sync.Mutex // guards below
	byAddr map[string]*node
	closed bool
}

// node is one server's client, replaced when too many of its dials failed.
type node struct {
	slots chan struct{} // inFlight of them

	mu     sync.Mutex // guards below
	client *lease
}

// lease is a client and who uses it. Once replaced it is closed when the last
// call has returned.
type lease struct {
	*client
	born     time.Time
	calls    int
	replaced bool
}

func newNodes(t *target, timeout time.Duration) *nodes {
	return &nodes{target: t, timeout: timeout, byAddr: map[string]*node{}}
}

// call runs f with a client of the server, when a slot is free.
func (ns *nodes) call(ctx context.Context, addr string, f func(*redis.Client) error) error {
	n, err := ns.node(addr)
	if err != nil {
		return err
	}
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l, err := n.take(ns, addr)
	if err != nil {
		return err
	}
	defer n.give(l)
	return f(l.Client)
}

func (ns *nodes) node(addr string) (*node, error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed {
		return nil, redis.ErrClosed
	}
	n := ns.byAddr[addr]
	if n == nil {
		n = &node{slots: make(chan struct{}, inFlight)}
		ns.byAddr[addr] = n
	}
	return n, nil
}

// take gives the client of the node, a fresh one if the old is worn out.
func (n *node) take(ns *nodes, addr string) (*lease, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.client; l != nil && l.failures.Load() >= inFlight {
		if time.Since(l.born) < redial {
			return nil, &stream.Error{Op: "connect", Kind: stream.ErrUnavailable, Err: errRefused}
		}
		n.retire()
	}
	if n.client == nil {
		if ns.over() {
			return nil, redis.ErrClosed
		}
		// Twice the room, so that go-redis' own pause after as many failed dials
		// as the pool has room for never begins.
		n.client = &lease{client: ns.target.connect(addr, 2*inFlight, ns.timeout), born: time.Now()}
	}
	n.client.calls++
	return n.client, nil
}

func (n *node) give(l *lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.calls--
	if l.replaced && l.calls == 0 {
		l.close()
	}
}

// retire puts the client aside. Called with mu held.
func (n *node) retire() {
	l := n.client
	n.client = nil
	if l == nil {
		return
	}
	l.replaced = true
	if l.calls == 0 {
		l.close()
	}
}

func (ns *nodes) over() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.closed
}

// close interrupts all calls.
func (ns *nodes) close() {
	ns.mu.Lock()
	ns.closed = true
	all := ns.byAddr
	ns.byAddr = map[string]*node{}
	ns.mu.Unlock()
	for _, n := range all {
		n.mu.Lock()
		if n.client != nil {
			n.client.close()
		}
		n.mu.Unlock()
	}
}
