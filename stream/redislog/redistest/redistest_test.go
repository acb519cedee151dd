package redistest_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"rejoin/stream/redislog/redistest"
)

func TestServerLives(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do("SET", "a", "1")
	s.Restart()
	if got := s.Do("GET", "a"); got != "1" {
		t.Fatalf("after SIGKILL and restart with AOF: %v", got)
	}
	s.Freeze()
	s.Thaw()
	s.Do("SET", "a", "2")
	s.Stop()
	s.Restart()
	if got := s.Do("GET", "a"); got != "2" {
		t.Fatalf("after shutdown: %v", got)
	}
}

func TestSnapshotGoesBack(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "a", "1")
	old := s.Save()
	s.Do("SET", "a", "2")
	s.RestartFrom(old)
	if got := s.Do("GET", "a"); got != "1" {
		t.Fatalf("after the older snapshot: %v", got)
	}
}

func TestProxyLosesTheAnswerAfterTheWrite(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	c := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	p.CutReply("incr", 1)
	if v, err := c.Incr(t.Context(), "n").Result(); err == nil {
		t.Fatalf("the answer was not lost: %v", v)
	}
	if got := s.Do("GET", "n"); got != "1" || p.Cuts() != 1 {
		t.Fatalf("n = %v after one lost answer (%d cut)", got, p.Cuts())
	}
	if v, err := c.Incr(t.Context(), "n").Result(); err != nil || v != 2 {
		t.Fatalf("the next one: %v %v", v, err)
	}
}

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	r := c.AddReplica(c.Masters[0])
	if !strings.Contains(r.Do("INFO", "replication").(string), "role:slave") {
		t.Fatal("the replica is none")
	}
}

func TestSentinel(t *testing.T) {
	s := redistest.StartSentinel(t)
	v := s.Sentinels[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.SentinelMaster)
	if len(v.([]any)) != 2 {
		t.Fatalf("the master's address: %v", v)
	}
}
