//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rejoin/stream/redislog/redistest"
)

// watcher is a reader that keeps all it is sent, over one connection.
type watcher struct {
	t    *testing.T
	name string

	mu   sync.Mutex // guards the following
	all  []event
	seen chan struct{} // closed and made anew at each event
}

// watch connects a reader, with a cursor or "", until the test ends.
func watch(t *testing.T, name, url, channel, cursor string) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{t: t, name: name, seen: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		_ = visit(ctx, url, channel, cursor, func(e event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, e)
			close(w.seen)
			w.seen = make(chan struct{})
		})
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return w
}

// inWords is an event in short: "7" for a message with that payload, "reset,
// next 8" or "trimmed 3, next none" for a gap, "ready" and so on for the rest.
func inWords(e event) string {
	if e.name == "message" {
		return e.data
	}
	if e.name != "rejoin.gap" {
		return strings.TrimPrefix(e.name, "rejoin.")
	}
	var g struct {
		Next   *string
		Missed *int
		Reason string
	}
	if err := json.Unmarshal([]byte(e.data), &g); err != nil {
		return e.data
	}
	text, next := g.Reason, "none"
	if g.Missed != nil {
		text += " " + strconv.Itoa(*g.Missed)
	}
	if g.Next != nil {
		_, next, _ = strings.Cut(*g.Next, "-")
	}
	return text + ", next " + next
}

// words are all events so far but states, and the newest state.
func (w *watcher) words() (words []string, state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.all {
		if e.name == "rejoin.state" {
			var s struct{ State string }
			_ = json.Unmarshal([]byte(e.data), &s) // "" is no state that is waited for
			state = s.State
			continue
		}
		words = append(words, inWords(e))
	}
	return words, state
}

// ids are those of all events but states.
func (w *watcher) ids() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.all {
		if e.name != "rejoin.state" {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// cursor is the id of the newest event.
func (w *watcher) cursor() string {
	ids := w.ids()
	return ids[len(ids)-1]
}

// until waits until the words and the state are as wanted.
func (w *watcher) until(within time.Duration, what string, holds func(words []string, state string) bool) {
	w.t.Helper()
	late := time.After(within)
	for {
		w.mu.Lock()
		seen := w.seen
		w.mu.Unlock()
		words, state := w.words()
		if holds(words, state) {
			return
		}
		select {
		case <-seen:
		case <-late:
			w.t.Fatalf("%s: got %q, %s, want %s within %v", w.name, words, state, what, within)
		}
	}
}

// expect waits until all that came is this, but for states.
func (w *watcher) expect(want ...string) {
	w.t.Helper()
	w.until(patience, fmt.Sprintf("%q", want), func(words []string, _ string) bool { return slices.Equal(words, want) })
}

// expectState waits until the newest state is this.
func (w *watcher) expectState(within time.Duration, want string) {
	w.t.Helper()
	w.until(within, want, func(_ []string, state string) bool { return state == want })
}

// put publishes one text, which must be acknowledged.
func put(t *testing.T, s *server, channel, text string) {
	t.Helper()
	if status, _ := try(t, s, channel, text, ""); status != http.StatusCreated {
		t.Fatalf("publishing %s was answered %d", text, status)
	}
}

// try publishes one text and returns the status and the head of the answer.
func try(t *testing.T, s *server, channel, text, key string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+"/v1/channels/"+channel+"/messages", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header
}

// The log is wiped under a server that runs: readers who are connected and those
// who come later are told, and go on with what is new.
// Holds G24.
func TestFlushed(t *testing.T) {
	const channel = "flushed"
	redis := redistest.Start(t)
	s := serve(t, plain, "--redis-url", redis.URL())
	there := watch(t, "connected", s.url, channel, "")
	there.expect("ready")
	for n := range 5 {
		put(t, s, channel, fmt.Sprint(n+1))
	}
	there.expect("ready", "1", "2", "3", "4", "5")
	old := there.cursor()

	redis.Do("FLUSHALL")
	put(t, s, channel, "6")
	there.expect("ready", "1", "2", "3", "4", "5", "reset, next 6", "6")
	watch(t, "came later", s.url, channel, old).expect("ready", "reset, next 6", "6")

	// A server that has forgotten all begins the count anew, and passes the old.
	redis.Do("FLUSHALL")
	s.kill()
	s.restart()
	late := watch(t, "came back to nothing", s.url, channel, old)
	late.expect("ready", "reset, next none")
	fresh := []string{"new 1", "new 2", "new 3", "new 4", "new 5", "new 6", "new 7", "new 8"}
	for _, text := range fresh {
		put(t, s, channel, text)
	}
	late.expect(append([]string{"ready", "reset, next none"}, fresh...)...)
	watch(t, "came after the count had passed", s.url, channel, old).
		expect(append([]string{"ready", "reset, next 1"}, fresh...)...)
}

// Redis restarts from an older snapshot: whoever had what is lost is told, also
// after as many have been published anew; whoever had not, misses nothing.
// Holds G24.
func TestOlderSnapshot(t *testing.T) {
	const channel = "snapshot"
	redis := redistest.Start(t)
	s := serve(t, plain, "--redis-url", redis.URL())
	there := watch(t, "connected", s.url, channel, "")
	there.expect("ready")
	for n := range 3 {
		put(t, s, channel, fmt.Sprint(n+1))
	}
	there.expect("ready", "1", "2", "3")
	before := there.cursor()
	snapshot := redis.Save()
	for n := range 4 {
		put(t, s, channel, fmt.Sprint(n+4))
	}
	there.expect("ready", "1", "2", "3", "4", "5", "6", "7")
	lost := there.cursor()

	redis.RestartFrom(snapshot)
	there.expect("ready", "1", "2", "3", "4", "5", "6", "7", "reset, next 1", "1", "2", "3")
	watch(t, "has what is lost", s.url, channel, lost).expect("ready", "reset, next 1", "1", "2", "3")
	left := watch(t, "has what is left", s.url, channel, before)
	left.expectState(patience, "live")
	left.expect("ready")

	// A server that has forgotten all goes on behind what is left, and passes.
	s.kill()
	s.restart()
	fresh := []string{"new 4", "new 5", "new 6", "new 7", "new 8", "new 9"}
	for _, text := range fresh {
		put(t, s, channel, text)
	}
	watch(t, "has what is left, later", s.url, channel, before).expect(append([]string{"ready"}, fresh...)...)
	watch(t, "has what is lost, later", s.url, channel, lost).
		expect(append([]string{"ready", "reset, next 1", "1", "2", "3"}, fresh...)...)
}

// Redis hangs for ten seconds without closing a connection: no call hangs with
// it, readers are told, new ones are let in, and nothing is lost or comes twice.
// Meanwhile the server is idle and says little.
// Holds G50, G58, G59, G60, G63.
func TestFrozen(t *testing.T) {
	const channel, away = "frozen", 10 * time.Second
	redis := redistest.Start(t)
	s := serve(t, plain, "--redis-url", redis.URL())
	there := watch(t, "connected", s.url, channel, "")
	there.expectState(patience, "live")
	put(t, s, channel, "1")
	there.expect("ready", "1")

	redis.Freeze()
	thaw := time.After(away)
	there.expectState(1500*time.Millisecond, "stale")
	newcomer := watch(t, "came meanwhile", s.url, channel, there.cursor())
	newcomer.expectState(time.Second, "stale")
	stranger := watch(t, "came meanwhile to another channel", s.url, "other", "")
	stranger.expectState(time.Second, "stale")
	begun, used, lines := time.Now(), cpuTime(t, s), strings.Count(s.written(), "\n")
	for over := false; !over; {
		called := time.Now()
		status, _ := try(t, s, channel, "2", "two")
		if took := time.Since(called); took > 2*time.Second+250*time.Millisecond {
			t.Errorf("a publish took %v, longer than redis.timeout", took)
		}
		if status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
			t.Fatalf("a publish to a log that does not answer is answered %d", status)
		}
		select {
		case <-thaw:
			over = true
		case <-time.After(100 * time.Millisecond): // a publisher that is patient
		}
	}
	window := time.Since(begun)
	if cpu := cpuTime(t, s) - used; cpu > window/20 {
		t.Errorf("the server used %v of CPU in %v without a log", cpu, window)
	}
	if n := strings.Count(s.written(), "\n") - lines; n > 20 {
		t.Errorf("the server wrote %d lines in %v without a log", n, window)
	}

	redis.Thaw()
	for _, w := range []*watcher{there, newcomer, stranger} {
		w.expectState(time.Second, "live")
	}
	for status := 0; status != http.StatusCreated; {
		status, _ = try(t, s, channel, "2", "two")
	}
	put(t, s, channel, "3")
	put(t, s, "other", "4")
	there.expect("ready", "1", "2", "3")
	newcomer.expect("ready", "2", "3")
	stranger.expect("ready", "4")
}

// cpuTime is what the server's process has used so far.
func cpuTime(t *testing.T, s *server) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// proc(5): utime and stime are fields 14 and 15; what is cut off is 1 and 2.
	_, rest, _ := strings.Cut(string(text), ") ")
	ticks := 0
	for _, field := range strings.Fields(rest)[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// The answer to an append is lost on its way: the publisher is told that nobody
// knows, and the same key does not append again.
// Holds G15.
func TestAnswerLost(t *testing.T) {
	const channel = "answers"
	redis := redistest.Start(t)
	proxy := redistest.NewProxy(t, redis.Addr)
	s := serve(t, plain, "--redis-url", proxy.URL())
	reader := watch(t, "reader", s.url, channel, "")
	reader.expect("ready")
	put(t, s, channel, "1")

	proxy.CutReply("evalsha", 1)
	if status, _ := try(t, s, channel, "2", "two"); status != http.StatusGatewayTimeout {
		t.Errorf("an append whose answer is lost is answered %d, want 504", status)
	}
	if n := proxy.Cuts(); n != 1 {
		t.Fatalf("%d answers were cut off, want 1", n)
	}
	status, head := try(t, s, channel, "2", "two")
	if status != http.StatusCreated || head.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same key again is answered %d, Idempotent-Replayed: %q", status, head.Get("Idempotent-Replayed"))
	}
	put(t, s, channel, "3")
	reader.expect("ready", "1", "2", "3")
}
