//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newcomersPatience is what the README's promise of a short way may take.
const newcomersPatience = 2 * time.Minute

// TestNewcomer goes the way of somebody who has Go and a browser and nothing
// else: clone, go run with nothing built before, open the page, publish, see it
// arrive. Modules come from the module cache, as they do on a second day; all
// compiling is in the time.
func TestNewcomer(t *testing.T) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), newcomersPatience)
	defer cancel()
	dir := t.TempDir()
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	clone := exec.CommandContext(ctx, "git", "clone", "-q", top, filepath.Join(dir, "rejoin"))
	if out, err := clone.CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v: %s", err, out)
	}

	run := exec.CommandContext(ctx, "go", "run", "./cmd/rejoin", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--log-format=json")
	run.Dir = filepath.Join(dir, "rejoin")
	run.Env = append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"))
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) } // go run and the program
	stderr, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = run.Wait()
	}()
	var url string
	var said []string
	for lines := bufio.NewScanner(stderr); url == "" && lines.Scan(); {
		said = append(said, lines.Text())
		var line struct{ Message, Listen string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			url = line.Listen
		}
	}
	if url == "" {
		t.Fatalf("go run did not serve:\n%s", strings.Join(said, "\n"))
	}
	serving := time.Since(begun)

	browser := exec.CommandContext(ctx, "node", "newcomer.mjs", url)
	browser.Dir = "../interop"
	browser.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := browser.CombinedOutput(); err != nil {
		t.Fatalf("newcomer.mjs after %v: %v: %s", time.Since(begun), err, out)
	}
	t.Logf("serving after %v, the first message in the page after %v", serving.Round(time.Second), time.Since(begun).Round(time.Second))
}
