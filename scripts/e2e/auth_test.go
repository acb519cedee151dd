//go:build linux

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The shell lines of docs/auth.md, run as one script in an empty folder, do what
// the text says.
// Holds G79.
func TestAuthExamples(t *testing.T) {
	program, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "rejoin")); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	blocks := fenced(t, "../../docs/auth.md", "sh")
	if len(blocks) < 6 {
		t.Fatalf("only %d blocks of sh", len(blocks))
	}
	// 28: a reader whose time, -m 1, is up.
	script := `curl() { command curl -sS --fail-with-body "$@" || [ $? = 28 ]; echo; }` + "\n" +
		strings.ReplaceAll(strings.Join(blocks, ""), "localhost:8080", "localhost:"+port)
	printed, said := filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr")
	cmd := exec.Command("bash", "-eu", "-c", "exec >"+printed+" 2>"+said+"\n"+script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "REJOIN_LISTEN="+address, "REJOIN_ADMIN_LISTEN=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // one group with all it starts
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer endGroup(t, cmd.Process.Pid, address)
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the lines ended with %v\n%s\n%s", err, read(t, printed), read(t, said))
	}
	out := read(t, printed)
	for _, want := range []string{
		"ok\n", `"channel":"news.uk"}`, `"payload":"Hello."`, `"payload":"It rains."`, "data: It rains.\n", `"channels":[`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the lines did not print %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "ok\n"); n != 2 {
		t.Errorf("ready %d times, want 2: with and without TLS\n%s", n, out)
	}
	if log := read(t, said); !strings.Contains(log, "https://") {
		t.Errorf("the log does not say https:\n%s", log)
	}
}
