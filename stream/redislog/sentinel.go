package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// sentinelEvery is how often a session asks whether its master still is.
const sentinelEvery = 500 * time.Millisecond

// sentinel finds the master by asking the Sentinels, one after the other until
// one answers. One that did not, or whose answer came into doubt, is asked last
// next time.
type sentinel struct {
	target *target
	asking lock // one look-up at a time

	mu     sync.Mutex // guards below
	hosts  []string
	addr   string // the master as last named; kept in doubt, for want of better
	doubts bool
}

func newSentinel(t *target) *sentinel {
	return &sentinel{target: t, asking: newLock(), hosts: slices.Clone(t.hosts), doubts: true}
}

func (s *sentinel) parts() int { return 1 }

func (s *sentinel) known() (addr string, hosts []string, sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr, slices.Clone(s.hosts), s.addr != "" && !s.doubts
}

func (s *sentinel) master(ctx context.Context, _ int) (string, error) {
	if addr, _, sure := s.known(); sure {
		return addr, nil
	}
	if err := s.asking.take(ctx); err != nil {
		return "", err
	}
	defer s.asking.give()
	last, _, sure := s.known() // somebody else may have asked meanwhile
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
func (s *sentinel) lookUp(ctx context.Context) (string, error) {
	_, hosts, _ := s.known()
	errs := []error{errNoMaster}
	for _, host := range hosts {
		addr, err := s.ask(ctx, host)
		if err != nil {
			s.putLast(host)
			errs = append(errs, fmt.Errorf("sentinel %s: %w", host, err))
			continue
		}
		s.mu.Lock()
		s.addr, s.doubts = addr, false
		s.mu.Unlock()
		return addr, nil
	}
	return "", errors.Join(errs...)
}

// putLast makes a Sentinel the last to be asked next time.
func (s *sentinel) putLast(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.hosts, host); i >= 0 {
		s.hosts = append(slices.Delete(s.hosts, i, i+1), host)
	}
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
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
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
		// Whoever named this one may be behind the others.
		s.hosts = append(s.hosts[1:], s.hosts[0])
	}
	s.doubts = true
	return readOnly
}
