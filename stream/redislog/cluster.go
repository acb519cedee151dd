package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// cluster keeps the master of each partition's slot. A partition is a part.
//
// A slot on the move (ASK, TRYAGAIN) counts as away: its keys are in two places
// and a script needs them in one.
type cluster struct {
	target *target
	asking lock // one look-up at a time

	mu      sync.Mutex // guards below
	masters []string   // by partition; "" when its slot has none
	doubts  bool       // some of them may be wrong
}

func newCluster(t *target, partitions int) *cluster {
	return &cluster{target: t, asking: newLock(), masters: make([]string, partitions), doubts: true}
}

func (c *cluster) parts() int { return len(c.masters) }

func (c *cluster) known(part int) (addr string, sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.masters[part], c.masters[part] != "" && !c.doubts
}

func (c *cluster) master(ctx context.Context, part int) (string, error) {
	if addr, sure := c.known(part); sure {
		return addr, nil
	}
	if err := c.asking.take(ctx); err != nil {
		return "", err
	}
	defer c.asking.give()
	last, sure := c.known(part) // somebody else may have asked meanwhile
	if sure {
		return last, nil
	}
	errs := []error{errNoMaster}
	for _, host := range c.hosts() {
		slots, err := c.ask(ctx, host)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", host, err))
			continue
		}
		c.learn(host, slots)
		if addr, _ := c.known(part); addr != "" {
			return addr, nil
		}
		return "", fmt.Errorf("slot %d of partition %d has no master", slot(part), part)
	}
	if last != "" {
		return last, nil
	}
	return "", errors.Join(errs...)
}

// hosts are all servers that may know: masters first, they were well before.
func (c *cluster) hosts() (hosts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range slices.Concat(c.masters, c.target.hosts) {
		if h != "" && !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

func (c *cluster) ask(ctx context.Context, host string) ([]redis.ClusterSlot, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	cl := c.target.connect(host, 2, lookupTimeout)
	defer cl.close()
	return cl.ClusterSlots(ctx).Result()
}

func (c *cluster) learn(host string, slots []redis.ClusterSlot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for part := range c.masters {
		c.masters[part] = ""
		for _, s := range slots {
			if n := slot(part); s.Start <= n && n <= s.End && len(s.Nodes) > 0 {
				c.masters[part] = complete(s.Nodes[0].Addr, host)
			}
		}
	}
	c.doubts = false
}

// complete fills in the host of an address that a server gives without one: its
// own, which it does not know.
func complete(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host == "" {
		host, _, _ = net.SplitHostPort(asked)
		return net.JoinHostPort(host, port)
	}
	return addr
}

// doubt implements topology. MOVED names the new master; a broken connection or
// CLUSTERDOWN may mean that there is one.
func (c *cluster) doubt(part int, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isReply(err) && hasPrefix(err, "MOVED") {
		// MOVED <slot> <host>:<port>
		if f := strings.Fields(err.Error()); len(f) == 3 {
			c.masters[part] = complete(f[2], c.masters[part])
			return true
		}
	}
	if !isReply(err) || hasPrefix(err, passing...) {
		c.doubts = true
	}
	return false
}

// watch implements topology: a master of a cluster that is one no more says so.
func (c *cluster) watch(context.Context, string) error { return nil }

// slot is the hash slot of a partition's keys: that of its hash tag.
func slot(partition int) int { return int(crc16(strconv.Itoa(partition)) % 16384) }

// crc16 is CRC-16/XMODEM (Redis Cluster specification, appendix A).
func crc16(s string) (crc uint16) {
	for _, c := range []byte(s) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
