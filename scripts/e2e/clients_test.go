//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rejoin/stream/redislog/redistest"
)

var updateClients = flag.Bool("update-clients", false, "write docs/clients.md from what the clients did")

const clientsDoc = "../../docs/clients.md"

// clientRow is a client of docs/clients.md, in its order. why explains what is
// red, and says the way round.
type clientRow struct {
	name, where, transport string
	polls                  bool // has no connection that could grow old
	why                    string
}

var clientRows = []clientRow{
	{name: "Chromium: EventSource", where: "browser", transport: "event stream"},
	{name: "Chromium: WebSocket", where: "browser", transport: "WebSocket"},
	{name: "Chromium: fetch, long-poll", where: "browser", transport: "long-poll", polls: true},
	{name: "Chromium: XMLHttpRequest, long-poll", where: "browser", transport: "long-poll", polls: true},
	{name: "Firefox: EventSource", where: "browser", transport: "event stream"},
	{name: "Firefox: WebSocket", where: "browser", transport: "WebSocket"},
	{name: "Firefox: fetch, long-poll", where: "browser", transport: "long-poll", polls: true},
	{name: "Firefox: XMLHttpRequest, long-poll", where: "browser", transport: "long-poll", polls: true},
	{name: "event-source-polyfill", where: "Chromium", transport: "event stream"},
	{name: "eventsource-polyfill", where: "Chromium", transport: "event stream",
		why: "A line that breaks off leaves its request with the status 0, which it takes for an answer of the server and closes for good. It keeps the last id, so wake it: on `error`, if it is `CLOSED`, wait a moment, set `source.readyState = source.CONNECTING` and call `source.poll()`. That is the next row."},
	{name: "eventsource-polyfill, polled again on error", where: "Chromium", transport: "event stream"},
	{name: "@microsoft/fetch-event-source", where: "Chromium", transport: "event stream",
		why: "It calls `onmessage` for blocks that have no data, which an EventSource does not dispatch (WHATWG HTML, section 9.2.6): there is one at the beginning of each connection, which sets `retry`. It misses nothing. Skip what has neither an id nor an event name: `onmessage: e => (e.id || e.event) && take(e)`. That is the next row. Set `openWhenHidden` too, or it closes whenever its page is hidden."},
	{name: "@microsoft/fetch-event-source, blocks without data skipped", where: "Chromium", transport: "event stream"},
	{name: "reconnecting-eventsource", where: "Chromium", transport: "event stream"},
	{name: "react-native-sse", where: "Chromium", transport: "event stream",
		why: "After a line that breaks off its request has the status 0, and for that it has no branch that reconnects: `onerror` dispatches `error` and that is all. It keeps the last id, so open it again yourself: `source.addEventListener('error', () => setTimeout(() => source.open(), 300))`. That is the next row."},
	{name: "react-native-sse, opened again on error", where: "Chromium", transport: "event stream"},
	{name: "eventsource", where: "Node", transport: "event stream"},
	{name: "launchdarkly-eventsource", where: "Node", transport: "event stream",
		why: "Without `readTimeoutMillis` it takes the idle timeout of Node's own agent, 5 seconds since Node 19, for a dead line. It comes back and misses nothing, but does so every 5 seconds of silence. Set `readTimeoutMillis` to more than twice the heartbeat. That is the next row."},
	{name: "launchdarkly-eventsource, readTimeoutMillis", where: "Node", transport: "event stream"},
	{name: "ws", where: "Node", transport: "WebSocket"},
	{name: "curl -N", where: "shell", transport: "event stream"},
	{name: "Python: http.client", where: "Python", transport: "event stream"},
	{name: "Python: urllib, long-poll", where: "Python", transport: "long-poll", polls: true},
}

// clientChecks are the columns of docs/clients.md.
var clientChecks = []string{"live", "resume", "gap", "silence", "age"}

// reading is what a client dispatched so far.
type reading struct {
	version string
	numbers []int    // the messages
	empty   int      // messages without data
	missed  []string // of each gap
	refused string   // the last error told in a body
	errors  []string // readyState at each error event, where a reader tells it
	ready   int      // how often it was told ready
	live    bool     // it is told nothing more by itself
	due     int      // how often it has to be told that for its age
	events  int      // all of it
	passed  map[string]bool
}

// readings are all clients that run.
type readings struct {
	mu sync.Mutex // guards the map and what is in it
	of map[string]*reading
}

func (all *readings) take(client, name, data string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	r := all.of[client]
	if r == nil {
		r = &reading{passed: map[string]bool{}}
		all.of[client] = r
	}
	r.events++
	switch name {
	case "version":
		r.version = data
		r.events--
	case "message":
		if data == "" {
			r.empty++
			return
		}
		n, err := strconv.Atoi(data)
		if err != nil {
			n = -1
		}
		r.numbers = append(r.numbers, n)
	case "rejoin.gap":
		var gap struct{ Missed *uint64 }
		text := "none"
		if json.Unmarshal([]byte(data), &gap) == nil && gap.Missed != nil {
			text = fmt.Sprint(*gap.Missed)
		}
		r.missed = append(r.missed, text)
	case "refused":
		r.refused = data
	case "error":
		r.errors = append(r.errors, data)
	case "rejoin.ready":
		r.ready++
		r.live = data == "" // a poll is always
	case "rejoin.state":
		r.live = strings.Contains(data, `"state":"live"`)
	}
}

// every is whether the condition holds for all clients of which it is expected.
func (all *readings) every(expected func(client string) bool, holds func(r *reading) bool) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, row := range clientRows {
		if r := all.of[row.name]; expected(row.name) && (r == nil || !holds(r)) {
			return false
		}
	}
	return true
}

// run starts a program that prints what clients dispatch.
func (all *readings) run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = "../interop"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; scripts/test installs what this needs", err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			var e struct{ Client, Name, Data string }
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e.Client, e.Name, e.Data = program, "message", lines.Text()
			}
			all.take(e.Client, e.Name, e.Data)
		}
	})
	t.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		running.Wait()
		late.Stop()
		_ = cmd.Wait()
	})
}

// Real clients against a real server, each as its users have it: messages come
// live; across a server that is killed each comes once; a gap is told with its
// number; silence with heartbeats is silence; and the age of a connection sends
// it away and back. docs/clients.md says which client does what, and why not.
// Holds G104.
func TestRealClients(t *testing.T) {
	const channel, kept = "clients", 100
	redis := redistest.Start(t)
	args := []string{"--redis-url", redis.URL(), "--cors-origins", "*", "--retention-max-messages", fmt.Sprint(kept),
		"--retry-min", "100ms", "--retry-max", "300ms"}
	s, other := serve(t, plain, args...), serve(t, plain, args...)

	all := &readings{of: map[string]*reading{}}
	all.run(t, "node", "clients.mjs", s.url, channel)
	all.run(t, "python3", "clients.py", s.url, channel)
	all.take("curl -N", "version", curlVersion(t))
	curl(t, s.url+"/v1/sse?heartbeat=7s&channel="+channel, func(e event) { all.take("curl -N", e.name, e.data) })

	before := readClientsDoc(t)
	last := 0
	publish := func(n int, every time.Duration) {
		t.Helper()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for range n {
			<-tick.C
			last++
			put(t, other, channel, strconv.Itoa(last))
		}
	}
	// check waits until those pass of whom it is expected, and notes who did.
	check := func(what string, holds func(r *reading) bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		expected := func(client string) bool { return *updateClients || before[client+" "+what] == "yes" }
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil && !all.every(expected, holds) {
			<-tick.C
		}
		all.mu.Lock()
		defer all.mu.Unlock()
		for name, r := range all.of {
			r.passed[what] = holds(r)
			if !r.passed[what] {
				t.Logf("%s: %s: not so: %d messages %v, gaps %q, ready %d times, errors %q", name, what, len(r.numbers), tail(r.numbers), r.missed, r.ready, r.errors)
			}
		}
	}

	eventually(t, "all clients to be live", func() bool {
		return all.every(func(string) bool { return true }, func(r *reading) bool { return r.ready > 0 })
	})
	publish(20, 10*time.Millisecond)
	check("live", func(r *reading) bool { return ascends(r.numbers, 1, 20) && r.empty == 0 })

	s.kill()
	publish(40, 5*time.Millisecond)
	s.restart()
	check("resume", func(r *reading) bool { return ascends(r.numbers, 1, 60) && r.missed == nil })

	s.kill()
	publish(kept+40, 2*time.Millisecond)
	s.restart()
	check("gap", func(r *reading) bool {
		return r.live && len(r.missed) == 1 && r.missed[0] == "40" && len(r.numbers) == 160 &&
			ascends(r.numbers[:60], 1, 60) && ascends(r.numbers[60:], 101, 200)
	})

	quiet := map[string]int{} // events so far
	all.mu.Lock()
	for name, r := range all.of {
		quiet[name] = r.events
	}
	all.mu.Unlock()
	<-time.After(15 * time.Second) // more than two heartbeats
	all.mu.Lock()
	for name, r := range all.of {
		quiet[name] = r.events - quiet[name]
	}
	all.mu.Unlock()
	publish(1, time.Millisecond)
	ends := func(r *reading, n int) bool { return len(r.numbers) > 0 && r.numbers[len(r.numbers)-1] == n }
	check("silence", func(r *reading) bool { return ends(r, 201) && len(r.numbers) == 161 })
	all.mu.Lock()
	for name, r := range all.of {
		if quiet[name] != 0 {
			t.Logf("%s: %d events in silence", name, quiet[name])
			r.passed["silence"] = false
		}
	}
	all.mu.Unlock()

	s.kill()
	s.args = append(s.args, "--limits-connection-age", "2s")
	s.restart()
	all.mu.Lock()
	for _, row := range clientRows {
		if r := all.of[row.name]; !row.polls {
			r.due = r.ready + 3 // once for the kill, then for its age, again and again
		}
	}
	all.mu.Unlock()
	publish(60, 100*time.Millisecond)
	check("age", func(r *reading) bool {
		return ends(r, 261) && len(r.numbers) == 221 && len(r.missed) == 1 && r.ready >= r.due
	})
	all.mu.Lock()
	if closed := "2"; slices.Contains(all.of["Chromium: EventSource"].errors, closed) {
		t.Error("Chromium's EventSource was closed for good")
	}
	t.Logf("readyState at the errors of Firefox's EventSource: %q", all.of["Firefox: EventSource"].errors)
	judgeClientsDoc(t, all.of, before)
	all.mu.Unlock()
}

// ascends is whether the numbers are all from first to last, each once.
func ascends(numbers []int, first, last int) bool {
	for i, n := range numbers {
		if n != first+i {
			return false
		}
	}
	return len(numbers) == last-first+1
}

func tail(numbers []int) []int { return numbers[max(0, len(numbers)-5):] }

func curlVersion(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("curl", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))[1]
}
