//go:build linux

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// curl reads an event stream with curl -N, and starts it again with the last id it
// was sent whenever it ends.
func curl(t *testing.T, url string, take func(event)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond) // between two tries, while nobody listens
		defer tick.Stop()
		cursor := ""
		for ctx.Err() == nil {
			args := []string{"-sN", url}
			if cursor != "" {
				args = append(args, "-H", "Last-Event-ID: "+cursor)
			}
			cmd := exec.CommandContext(ctx, "curl", args...)
			out, err := cmd.StdoutPipe()
			if err != nil || cmd.Start() != nil {
				take(event{name: "rejoin.error", data: "curl does not start"})
				return
			}
			for e := range events(out) {
				cursor = cmp.Or(e.id, cursor)
				take(e)
			}
			_ = cmd.Wait()
			<-tick.C
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// chromium reads with the EventSource of a real browser, which reconnects by
// itself. dispatch gets what the page got; "open" and "error" are events too.
func chromium(t *testing.T, url string, dispatch func(event)) {
	t.Helper()
	cmd := exec.Command("node", "eventsource.mjs", url,
		"rejoin.ready", "rejoin.state", "rejoin.gap", "rejoin.error", "rejoin.move", "tick")
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
			var e struct{ Name, ID, Data string }
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e.Name, e.Data = "rejoin.error", "chromium says "+lines.Text()
			}
			dispatch(event{name: e.Name, id: e.ID, data: e.Data})
		}
	})
	t.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		running.Wait()
		late.Stop()
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "killed") {
			t.Errorf("chromium's script: %v", err)
		}
	})
}
