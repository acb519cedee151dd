package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// sentinel finds the master by asking the Sentinels, one after the other, the
// one that answered last first.
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
	last, hosts, sure := s.known() // somebody else may have asked meanwhile
	if sure {
		return last, nil
	}
	errs := []error{errNoMaster}
	for i, host := range hosts {
		addr, err := s.ask(ctx, host)
		if err != nil {
			errs = append(errs, fmt.Errorf("sentinel %s: %w", host, err))
			continue
		}
		s.mu.Lock()
		s.addr, s.doubts = addr, false
		s.hosts[0], s.hosts[i] = s.hosts[i], s.hosts[0]
		s.mu.Unlock()
		return addr, nil
	}
	if last != "" {
		return last, nil
	}
	return "", errors.Join(errs...)
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
	s.doubts = true
	return readOnly
}
