package redislog_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/redislog"
	"rejoin/stream/redislog/redistest"
)

// monitor collects every command a server is sent, until the returned function
// is called, which gives them.
func monitor(t *testing.T, s *redistest.Server) func() []string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("monitor: %q %v", line, err)
	}
	const last = "the monitor may stop"
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			line, err := r.ReadString('\n')
			if err != nil || strings.Contains(line, last) {
				return
			}
			lines = append(lines, line)
		}
	}()
	return func() []string {
		s.Do("ECHO", last)
		<-done
		_ = conn.Close()
		return lines
	}
}

// Everything the log does on a cluster of three: each channel's messages arrive
// by the session of its part, and no command names keys of two slots. The proof:
// every key a command names, as the masters' MONITOR shows it, has one hash tag a
// command, and no master ever answered an error.
// Holds G68.
func TestClusterCrossesNoSlot(t *testing.T) {
	t.Parallel() // it waits most of its time
	c := redistest.StartCluster(t, 3)
	for _, m := range c.Masters {
		m.Do("CONFIG", "RESETSTAT")
	}
	var stop []func() []string
	for _, m := range c.Masters {
		stop = append(stop, monitor(t, m))
	}
	logs := []*redislog.Log{open(t, redislog.Options{URL: c.URL()}), open(t, redislog.Options{URL: c.URL()})}
	l := logs[0]
	if l.Parts() != 32 {
		t.Fatalf("%d parts", l.Parts())
	}
	const channels = 100
	sessions := make([]stream.Session, l.Parts())
	var wg sync.WaitGroup
	for part := range sessions {
		wg.Go(func() {
			s, err := l.Listen(t.Context(), part)
			if err != nil {
				t.Errorf("part %d: %v", part, err)
				return
			}
			sessions[part] = s
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for part := range sessions {
		defer sessions[part].Close()
	}
	want := make([]int, l.Parts())
	for i := range channels {
		name := fmt.Sprint("channel", i)
		a, err := logs[1].Append(t.Context(), stream.Message{Channel: name, Payload: "x", IdempotencyKey: "k"})
		if err != nil || a.ID.N != 1 {
			t.Fatal(a, err)
		}
		want[l.Part(name)]++
	}
	for part, s := range sessions {
		for got := 0; got < want[part]; {
			marks, err := wait(t, s, 10*time.Second)
			if err != nil {
				t.Fatalf("part %d: %v", part, err)
			}
			for _, m := range marks {
				if l.Part(m.Channel) != part {
					t.Fatalf("part %d was told of %s", part, m.Channel)
				}
			}
			got += len(marks)
		}
	}
	for i := range channels {
		name := fmt.Sprint("channel", i)
		pages, err := sessions[l.Part(name)].Read(t.Context(), []stream.Query{{Channel: name, Limit: 5}, {Channel: name, Limit: 5, Follow: true}})
		if err != nil || len(pages[0].Entries) != 1 || len(pages[1].Entries) != 1 {
			t.Fatal(pages, err)
		}
		if i%10 == 0 {
			if err := l.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Bounds(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, m := range c.Masters {
		if stats := fmt.Sprint(m.Do("INFO", "errorstats")); strings.Contains(stats, "CROSSSLOT") || strings.Contains(stats, "MOVED") {
			t.Errorf("master %d answered: %s", i, stats)
		}
		lines := stop[i]()
		if len(lines) < channels/6 {
			t.Errorf("master %d saw %d commands only", i, len(lines))
		}
		for _, line := range lines {
			tags := map[string]bool{}
			for _, word := range strings.Split(line, `"`) {
				if rest, ok := strings.CutPrefix(word, "rejoin:{"); ok {
					tag, _, _ := strings.Cut(rest, "}")
					tags[tag] = true
				}
			}
			if len(tags) > 1 {
				t.Errorf("a command names keys of %d slots: %.200s", len(tags), line)
			}
		}
	}
}

// A master of a cluster dies: the parts of the others live on, its own end and
// come back on the replica.
// Holds G64.
func TestClusterFailover(t *testing.T) {
	t.Parallel() // it waits most of its time
	c := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	c.AddReplica(c.Masters[0])
	l := open(t, redislog.Options{URL: c.URL()})
	dead, alive := channelOn(t, c.Masters[0], l), channelOn(t, c.Masters[1], l)
	deadPart, alivePart := l.Part(dead), l.Part(alive)
	first, err := l.Listen(t.Context(), deadPart)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	other, err := l.Listen(t.Context(), alivePart)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	publish(t, l, dead, "1")
	if _, err := wait(t, first, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	// The replica has it too.
	if got := c.Masters[0].Do("WAIT", 1, 5000); got != int64(1) {
		t.Fatalf("replicated to %v", got)
	}
	c.Masters[0].Kill()
	if _, took := waitOver(t, first, 5*time.Second); took > 1500*time.Millisecond {
		t.Fatalf("over after %v", took)
	}
	again := listenUntil(t, l, deadPart, 20*time.Second)
	defer again.Close()
	a, err := l.Append(t.Context(), stream.Message{Channel: dead, Payload: "2"})
	for start := time.Now(); errors.Is(err, stream.ErrUnavailable) && time.Since(start) < 5*time.Second; {
		a, err = l.Append(t.Context(), stream.Message{Channel: dead, Payload: "2"})
	}
	if err != nil || a.ID.N != 2 {
		t.Fatalf("after the failover: %+v %v", a, err)
	}
	if marks, err := wait(t, again, 5*time.Second); err != nil || marks[0].Channel != dead {
		t.Fatalf("%+v %v", marks, err)
	}
	publish(t, l, alive, "1")
	for {
		marks, err := wait(t, other, 5*time.Second)
		if err != nil {
			t.Fatalf("the part of another master ended too: %v", err)
		}
		if marks[0].Channel == alive {
			return
		}
	}
}

// A slot moves to another master under its readers and writers: while it is on
// the move it is away, truthfully, and then all goes on where it is.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel() // it waits most of its time
	c := redistest.StartCluster(t, 3)
	l := open(t, redislog.Options{URL: c.URL()})
	from, to := c.Masters[0], c.Masters[1]
	name := channelOn(t, from, l)
	sess, err := l.Listen(t.Context(), l.Part(name))
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	publish(t, l, name, "1")
	slot := from.Do("CLUSTER", "KEYSLOT", l.StreamKey(name))
	fromID, toID := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	from.Do("MIGRATE", "127.0.0.1", to.Port, l.SmallKey(name), 0, 5000)
	if _, err := l.Append(t.Context(), stream.Message{Channel: name, Payload: "never"}); !errors.Is(err, stream.ErrUnavailable) {
		t.Fatalf("on the move: %v", err)
	}
	for {
		keys := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 10).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do(append([]any{"MIGRATE", "127.0.0.1", to.Port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	for _, m := range []*redistest.Server{to, from, c.Masters[2]} {
		m.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	if id := publish(t, l, name, "2"); id.N != 2 {
		t.Fatalf("moved, then comes %v", id)
	}
	if err, took := waitOver(t, sess, 5*time.Second); !errors.Is(err, stream.ErrUnavailable) || took > 1500*time.Millisecond {
		t.Fatalf("over after %v: %v", took, err)
	}
	next, err := l.Listen(t.Context(), l.Part(name))
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	publish(t, l, name, "3")
	if marks, err := wait(t, next, 5*time.Second); err != nil || marks[0].ID.N != 3 {
		t.Fatal(marks, err)
	}
	pages, err := next.Read(t.Context(), []stream.Query{{Channel: name, Limit: 10}})
	if err != nil || strings.Join(texts(pages[0]), " ") != "1 2 3" {
		t.Fatal(pages, err)
	}
}

// channelOn finds a channel whose part lives on this master.
func channelOn(t *testing.T, m *redistest.Server, l *redislog.Log) string {
	t.Helper()
	me := fmt.Sprint(m.Do("CLUSTER", "MYID"))
	for i := range 1000 {
		name := fmt.Sprint("c", i)
		slot := m.Do("CLUSTER", "KEYSLOT", l.StreamKey(name)).(int64)
		if !strings.Contains(nodeOf(m, slot), me) {
			continue
		}
		return name
	}
	t.Fatal("no channel lives there")
	return ""
}

// nodeOf is the line of CLUSTER NODES that owns a slot.
func nodeOf(m *redistest.Server, slot int64) string {
	for line := range strings.SplitSeq(m.Do("CLUSTER", "NODES").(string), "\n") {
		f := strings.Fields(line)
		for _, span := range f[min(len(f), 8):] {
			from, to, _ := strings.Cut(span, "-")
			a, err1 := strconv.ParseInt(from, 10, 64)
			b, err2 := strconv.ParseInt(to, 10, 64)
			if err1 == nil && err2 == nil && a <= slot && slot <= b {
				return line
			}
		}
	}
	return ""
}

// listenUntil opens a session as soon as there is one to be had.
func listenUntil(t *testing.T, l *redislog.Log, part int, d time.Duration) stream.Session {
	t.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		s, err := l.Listen(t.Context(), part)
		if err == nil {
			return s
		}
		if time.Since(start) > d {
			t.Fatalf("part %d after %v: %v", part, d, err)
		}
	}
}

// Holds G64.
func TestSentinelFailover(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := redistest.StartSentinel(t)
	l := open(t, redislog.Options{URL: s.URL()})
	first := listen(t, l)
	a := publish(t, l, "a", "1")
	if _, err := wait(t, first, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := s.Master.Do("WAIT", 1, 5000); got != int64(1) {
		t.Fatalf("replicated to %v", got)
	}
	s.Master.Kill()
	if _, took := waitOver(t, first, 5*time.Second); took > 1500*time.Millisecond {
		t.Fatalf("over after %v", took)
	}
	again := listenUntil(t, l, 0, 20*time.Second)
	defer again.Close()
	b := publish(t, l, "a", "2")
	if b.N != a.N+1 {
		t.Fatalf("behind %v comes %v", a, b)
	}
	if marks, err := wait(t, again, 5*time.Second); err != nil || marks[0].ID != b {
		t.Fatalf("%+v %v", marks, err)
	}
	if got := fmt.Sprint(s.Replica.Do("INFO", "replication")); !strings.Contains(got, "role:master") {
		t.Fatal("the replica was not promoted")
	}
}

// The master steps down while everybody lives: the session on it ends though its
// connection is fine.
// Holds G64.
func TestSentinelSwitch(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := redistest.StartSentinel(t)
	l := open(t, redislog.Options{URL: s.URL()})
	first := listen(t, l)
	a := publish(t, l, "a", "1")
	if got := s.Master.Do("WAIT", 1, 5000); got != int64(1) {
		t.Fatalf("replicated to %v", got)
	}
	s.Sentinels[0].Do("SENTINEL", "FAILOVER", redistest.SentinelMaster)
	for {
		if _, err := wait(t, first, 20*time.Second); err != nil {
			break
		}
	}
	again := listenUntil(t, l, 0, 20*time.Second)
	defer again.Close()
	var b stream.Appended
	var err error
	for start := time.Now(); time.Since(start) < 10*time.Second; {
		if b, err = l.Append(t.Context(), stream.Message{Channel: "a", Payload: "2"}); err == nil {
			break
		}
		if !errors.Is(err, stream.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if err != nil || b.ID.N != a.N+1 {
		t.Fatalf("behind %v comes %+v, %v", a, b, err)
	}
}
