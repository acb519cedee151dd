package redislog

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// cluster keeps the master of each partition's slot. A partition is a part.
//
// A slot on the move (ASK, TRYAGAIN) counts as away: its keys are in two places
// and a script needs them in one.
type cluster struct {
	target *target
	roster roster
	asking lock // one look-up at a time

	mu      sync.Mutex // guards below
	masters []string   // by partition; "" when its slot has none
	by      string     // who named them
	asked   time.Time  // when
	doubts  bool       // some of them may be wrong
}

func newCluster(t *target, partitions int) *cluster {
	return &cluster{
		target: t, asking: newLock(), roster: roster{hosts: slices.Clone(t.hosts)},
		masters: make([]string, partitions), doubts: true,
	}
}

func (c *cluster) parts() int { return len(c.masters) }

func (c *cluster) known(part int) (addr string, sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.masters[part], c.masters[part] != "" && (!c.doubts || time.Since(c.asked) < lookupEvery)
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
	err := c.roster.ask(ctx, func(ctx context.Context, host string) error {
		cl := c.target.connect(host, 2, lookupTimeout)
		defer cl.close()
		slots, err := cl.ClusterSlots(ctx).Result()
		if err != nil {
			return err
		}
		return c.learn(host, slots, part)
	})
	if err != nil && last == "" {
		return "", err
	}
	addr, _ := c.known(part)
	return addr, nil
}

// learn keeps what a server says of the slots. It is an error if it knows no
// master for the part that was asked for.
func (c *cluster) learn(host string, slots []redis.ClusterSlot, part int) error {
	masters := make([]string, len(c.masters))
	for _, s := range slots {
		for i, n := range s.Nodes {
			addr := complete(n.Addr, host)
			c.roster.add(addr)
			for p := range masters {
				if i == 0 && s.Start <= slot(p) && slot(p) <= s.End {
					masters[p] = addr
				}
			}
		}
	}
	if masters[part] == "" {
		return fmt.Errorf("slot %d of partition %d has no master", slot(part), part)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.masters, c.by, c.asked, c.doubts = masters, host, time.Now(), false
	return nil
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
		if !c.doubts {
			c.roster.putLast(c.by) // it may be behind the others
		}
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
