package redislog

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// sentinelEvery is how often a session asks whether its master still is.
const sentinelEvery = 500 * time.Millisecond

// sentinel finds the master by asking the Sentinels.
type sentinel struct {
	target *target
	roster roster
	asking lock // one look-up at a time

	mu     sync.Mutex // guards below
	addr   string     // the master as last named; kept in doubt, for want of better
	by     string     // who named it
	asked  time.Time  // when
	doubts bool
}

func newSentinel(t *target) *sentinel {
	return &sentinel{target: t, asking: newLock(), roster: roster{hosts: slices.Clone(t.hosts)}, doubts: true}
}

func (s *sentinel) parts() int { return 1 }

func (s *sentinel) known() (addr string, sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr, s.addr != "" && (!s.doubts || time.Since(s.asked) < lookupEvery)
}

func (s *sentinel) master(ctx context.Context, _ int) (string, error) {
	if addr, sure := s.known(); sure {
		return addr, nil
	}
	if err := s.asking.take(ctx); err != nil {
		return "", err
	}
	defer s.asking.give()
	last, sure := s.known() // somebody else may have asked meanwhile
	if sure {
		return last, nil
	}
	addr, err := s.lookUp(ctx)
	if err != nil && last != "" {
		return last, nil
	}
	return addr, err
}

// lookUp asks until one Sentinel answers. Called with asking taken.
func (s *sentinel) lookUp(ctx context.Context) (addr string, err error) {
	err = s.roster.ask(ctx, func(ctx context.Context, host string) error {
		if addr, err = s.ask(ctx, host); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.addr, s.by, s.asked, s.doubts = addr, host, time.Now(), false
		return nil
	})
	return addr, err
}

// watch implements topology. Sentinels promote a replica seconds before they
// take the old master down; what is appended there meanwhile is lost.
func (s *sentinel) watch(ctx context.Context, addr string) error {
	tick := time.NewTicker(sentinelEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if s.asking.take(ctx) != nil {
			return nil
		}
		now, err := s.lookUp(ctx)
		s.asking.give()
		if err == nil && now != addr {
			return fmt.Errorf("the Sentinels made %s master in place of %s", now, addr)
		}
	}
}

func (s *sentinel) ask(ctx context.Context, host string) (string, error) {
	c := newClient(host, s.target.sentinelUser, s.target.sentinelPassword, 0, s.target.tls, 2, lookupTimeout)
	defer c.close()
	v, err := c.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.target.master).StringSlice()
	if err != nil {
		return "", err
	}
	if len(v) != 2 {
		return "", fmt.Errorf("it does not know a master %q", s.target.master)
	}
	return net.JoinHostPort(v[0], v[1]), nil
}

// doubt implements topology. An answer READONLY means that our master is one no
// more; a broken connection may mean it.
func (s *sentinel) doubt(_ int, err error) bool {
	readOnly := isReply(err) && hasPrefix(err, "READONLY")
	if isReply(err) && !hasPrefix(err, passing...) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.doubts {
		s.roster.putLast(s.by) // it may be behind the others
	}
	s.doubts = true
	return readOnly
}
