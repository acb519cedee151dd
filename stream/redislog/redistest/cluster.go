package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Cluster is a Redis Cluster whose slots are spread over its masters.
type Cluster struct {
	Masters []*Server

	t testing.TB
}

// StartCluster runs a cluster of so many masters and waits until each of them
// says that it is whole. Nodes are declared dead after a second.
func StartCluster(t testing.TB, masters int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range masters {
		c.Masters = append(c.Masters, startNode(t, args))
	}
	const slots = 16384
	for i, m := range c.Masters {
		m.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
		m.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, m := range c.Masters[1:] {
		m.Do("CLUSTER", "MEET", "127.0.0.1", c.Masters[0].Port)
	}
	for _, m := range c.Masters {
		c.wait("cluster_state:ok on "+m.Addr, func() bool {
			info := fmt.Sprint(m.Do("CLUSTER", "INFO"))
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", masters))
		})
	}
	return c
}

func startNode(t testing.TB, args []string) *Server {
	t.Helper()
	return Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0"}, args...)...)
}

// AddReplica runs a replica of one master and waits until its link is up.
func (c *Cluster) AddReplica(of *Server, args ...string) *Server {
	c.t.Helper()
	r := startNode(c.t, args)
	r.Do("CLUSTER", "MEET", "127.0.0.1", of.Port)
	id := fmt.Sprint(of.Do("CLUSTER", "MYID"))
	c.wait("the replica to know its master", func() bool {
		_, err := r.TryDo("CLUSTER", "REPLICATE", id)
		return err == nil
	})
	c.wait("the replica's link", func() bool {
		return strings.Contains(fmt.Sprint(r.Do("INFO", "replication")), "master_link_status:up")
	})
	for _, m := range c.Masters {
		c.wait("the replica to be known on "+m.Addr, func() bool {
			return strings.Contains(fmt.Sprint(m.Do("CLUSTER", "NODES")), fmt.Sprintf(":%d@", r.Port))
		})
	}
	return r
}

// URL is the cluster's address as a redis+cluster:// setting.
func (c *Cluster) URL() string {
	var hosts []string
	for _, m := range c.Masters {
		hosts = append(hosts, m.Addr)
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

func (c *Cluster) wait(what string, ok func() bool) {
	c.t.Helper()
	wait(c.t, what, ok)
}

// wait polls a fact of another process until it holds.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("redistest: waited %v for %s", startTimeout, what)
		}
		<-tick.C
	}
}
