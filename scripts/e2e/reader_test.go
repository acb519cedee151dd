//go:build linux

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// event is one event of an event stream, as a browser would dispatch it.
type event struct {
	name string // "message" if the stream names none
	id   string // the last event id at that time
	data string
}

// events interprets an event stream as WHATWG HTML, section 9.2.6, lays down,
// until the stream ends, however it ends.
func events(stream io.Reader) iter.Seq[event] {
	return func(yield func(event) bool) {
		in := bufio.NewReader(stream)
		var id, name string
		var data []string
		for {
			line, err := readLine(in)
			if err != nil {
				return
			}
			if line == "" {
				if name == "" {
					name = "message"
				}
				if data != nil && !yield(event{name, id, strings.Join(data, "\n")}) {
					return
				}
				name, data = "", nil
				continue
			}
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				name = value
			case "data":
				data = append(data, value)
			case "id":
				if !strings.Contains(value, "\x00") {
					id = value
				}
			}
		}
	}
}

// readLine reads up to LF, CR or CRLF.
func readLine(in *bufio.Reader) (string, error) {
	var line strings.Builder
	for {
		c, err := in.ReadByte()
		if err != nil {
			return "", err
		}
		switch c {
		case '\r':
			if next, err := in.Peek(1); err == nil && next[0] == '\n' {
				_, _ = in.Discard(1)
			}
			return line.String(), nil
		case '\n':
			return line.String(), nil
		}
		line.WriteByte(c)
	}
}

// account is what a reader was sent over all its connections: which numbers, in
// which order, and what it was told. The channel must hold only the numbers from
// 1 on as payloads, each appended once.
type account struct {
	name string

	mu     sync.Mutex // guards the following
	cursor string
	last   int            // the newest number that came
	faults []string       // the first few
	told   map[string]int // events beside messages; states by "state live"
	seen   chan struct{}  // closed and made anew at each event
}

func newAccount(name string) *account {
	return &account{name: name, told: map[string]int{}, seen: make(chan struct{})}
}

func (a *account) take(e event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.cursor = e.id; e.name {
	case "message":
		n, err := strconv.Atoi(e.data)
		if err != nil || n != a.last+1 {
			a.fault("%q (id %s) came after %d", e.data, e.id, a.last)
		}
		if _, counter, _ := strings.Cut(e.id, "-"); err == nil && counter != e.data {
			a.fault("%q has the id %s", e.data, e.id)
		}
		a.last = n
	case "rejoin.gap", "rejoin.error":
		a.fault("was told %s %s after %d", e.name, e.data, a.last)
	case "rejoin.state":
		_, state, _ := strings.Cut(e.data, `"state":"`)
		state, _, _ = strings.Cut(state, `"`)
		a.told["state "+state]++
	default:
		a.told[e.name]++
	}
	close(a.seen)
	a.seen = make(chan struct{})
}

// fault notes what must not be. The caller holds mu.
func (a *account) fault(format string, args ...any) {
	if len(a.faults) < 5 {
		a.faults = append(a.faults, a.name+": "+fmt.Sprintf(format, args...))
	}
}

// position is the cursor to come back with.
func (a *account) position() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cursor
}

// newest is the newest number that came.
func (a *account) newest() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// count is how often the reader was told something.
func (a *account) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.told[what]
}

// wait waits until the condition, which is called with mu held, is met.
func (a *account) wait(ctx context.Context, holds func() bool) error {
	for {
		a.mu.Lock()
		done, seen := holds(), a.seen
		a.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-seen:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitFor waits until the reader has the number n, or was told something.
func (a *account) waitFor(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if a.wait(ctx, func() bool { return a.last >= n }) != nil {
		t.Fatalf("%s: has %d, still waiting for %d; faults: %q", a.name, a.newest(), n, a.faults)
	}
}

func (a *account) waitTold(t *testing.T, what string, times int, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if a.wait(ctx, func() bool { return a.told[what] >= times }) != nil {
		t.Fatalf("%s: was told %q %d times within %v, want %d", a.name, what, a.count(what), within, times)
	}
}

// settle checks the account: all n numbers, each once, in order, no gap told.
func (a *account) settle(t *testing.T, n int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != n {
		a.fault("ends with %d, want %d", a.last, n)
	}
	for _, f := range a.faults {
		t.Error(f)
	}
}

// visit reads from one server until the context or the stream ends.
func (a *account) visit(ctx context.Context, url, channel string) error {
	return visit(ctx, url, channel, a.position(), a.take)
}

// visit reads one channel from a cursor, "" for none, until the context or the
// stream ends.
func visit(ctx context.Context, url, channel, cursor string, take func(event)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/sse?channel="+channel, nil)
	if err != nil {
		return err
	}
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	res, err := streams.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", res.Status)
	}
	for e := range events(res.Body) {
		take(e)
	}
	return nil
}

// streams is for answers that do not end.
var streams = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
