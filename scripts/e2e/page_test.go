//go:build linux

package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestPage has Chromium use the page at / as a visitor would: publish, cut each
// line, publish on, rejoin, miss more than the log keeps, lose the server. The
// script says what it checks.
// Holds G121.
func TestPage(t *testing.T) {
	s := serve(t, plain, "--retention-max-messages", "20", "--retry-max", "1s")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "page.mjs", s.url)
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
	restarts := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "restart" {
			restarts++
			s.kill()
			s.restart()
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("page.mjs: %v", err)
	}
	if restarts != 1 {
		t.Errorf("the server was restarted %d times, want once", restarts)
	}
}
