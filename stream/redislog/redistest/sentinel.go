package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SentinelMaster is the name the Sentinels of [StartSentinel] give the master.
const SentinelMaster = "rejoin-test"

// Sentinel is a master with one replica, watched by three Sentinels that fail
// over half a second after the master went away.
type Sentinel struct {
	Master, Replica *Server
	Sentinels       []*Server
}

// StartSentinel runs the five processes and waits until every Sentinel knows
// the others and the replica.
func StartSentinel(t testing.TB, args ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{Master: Start(t, args...)}
	s.Replica = Start(t, append([]string{"--replicaof", "127.0.0.1 " + fmt.Sprint(s.Master.Port),
		"--repl-diskless-sync-delay", "0"}, args...)...)
	wait(t, "the replica's link", func() bool {
		return strings.Contains(fmt.Sprint(s.Replica.Do("INFO", "replication")), "master_link_status:up")
	})
	for range 3 {
		conf := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 500\n"+
			"sentinel failover-timeout %[1]s 2000\n", SentinelMaster, s.Master.Port)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Sentinels = append(s.Sentinels, start(t, "redis-sentinel", []string{conf}))
	}
	for _, sn := range s.Sentinels {
		wait(t, "the Sentinels to find each other", func() bool {
			info := fmt.Sprint(sn.Do("INFO", "sentinel"))
			return strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1,sentinels=3")
		})
	}
	return s
}

// URL is the group's address as a redis+sentinel:// setting.
func (s *Sentinel) URL() string {
	var hosts []string
	for _, sn := range s.Sentinels {
		hosts = append(hosts, sn.Addr)
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + SentinelMaster
}
