//go:build linux

package e2e

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fenced returns the blocks of a document that begin with ```kind.
func fenced(t *testing.T, path, kind string) []string {
	t.Helper()
	var blocks []string
	for _, part := range strings.Split(read(t, path), "\n```"+kind+"\n")[1:] {
		block, _, ok := strings.Cut(part, "\n```\n")
		if !ok {
			t.Fatalf("%s: a block of %s has no end", path, kind)
		}
		blocks = append(blocks, block+"\n")
	}
	return blocks
}

// TestReadme runs the README's first block as a newcomer would, on another
// port, and compares what it prints with the block below it.
// Holds G41, G79.
func TestReadme(t *testing.T) {
	scripts, pictures := fenced(t, "../../README.md", "sh"), fenced(t, "../../README.md", "text")
	if len(scripts) == 0 || len(pictures) == 0 {
		t.Fatal("README.md has no block of sh, or none of text")
	}
	script, picture := scripts[0], pictures[0]
	if n := strings.Count(script, "\n"); n != 5 {
		t.Errorf("the README shows the product in %d lines, want 5", n)
	}

	dir := t.TempDir()
	address := freeAddress(t)
	for old, new := range map[string]string{
		"localhost:8080": address,
		"/tmp/seen":      filepath.Join(dir, "seen"),
	} {
		if !strings.Contains(script, old) {
			t.Fatalf("the block does not hold %s:\n%s", old, script)
		}
		script = strings.ReplaceAll(script, old, new)
	}
	printed := runScript(t, script, address)

	got, want := inGeneral(printed), inGeneral(picture)
	if got != want {
		t.Errorf("the README's lines print\n%s\nand the README says\n%s", got, want)
	}
	// The last id that the first reader saw is the one the second resumed from.
	ids := regexp.MustCompile(`\d{13}-\d+`).FindAllString(printed, -1)
	if first, last := ids[0], ids[len(ids)-1]; !strings.HasSuffix(first, "-1") || !strings.HasSuffix(last, "-2") {
		t.Errorf("ids from %s to %s, want -1 and -2", first, last)
	}
}

// inGeneral puts words for all that differs from run to run.
func inGeneral(text string) string {
	for _, c := range []struct{ pattern, word string }{
		{`\d{13}-1\b`, "ID1"},
		{`\d{13}-2\b`, "ID2"},
		{`retry: \d+`, "retry: MS"},
		{`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`, "TIME"},
	} {
		text = regexp.MustCompile(c.pattern).ReplaceAllString(text, c.word)
	}
	return strings.TrimRight(text, "\n") + "\n"
}

// runScript runs a block from the top of the tree, with its server at that
// address, and ends what it started. It returns what the block printed.
func runScript(t *testing.T, script, address string) string {
	t.Helper()
	// Files, not pipes: the server that the block leaves running holds them open.
	printed, said := filepath.Join(t.TempDir(), "stdout"), filepath.Join(t.TempDir(), "stderr")
	cmd := exec.Command("bash", "-eu", "-c", "exec >"+printed+" 2>"+said+"\n"+script)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "REJOIN_LISTEN="+address, "REJOIN_ADMIN_LISTEN=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // one group with all it starts
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer endGroup(t, cmd.Process.Pid, address)
	late := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	// The last line is a reader whose time is up: curl's 28 is how it ends.
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 28 {
		t.Fatalf("the block ended with %v, want exit status 28\n%s", err, read(t, said))
	}
	return read(t, printed)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// endGroup ends the process group by SIGTERM, and checks that its server goes.
func endGroup(t *testing.T, group int, address string) {
	t.Helper()
	_ = syscall.Kill(-group, syscall.SIGTERM)
	defer func() { _ = syscall.Kill(-group, syscall.SIGKILL) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < 15*time.Second; <-tick.C {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = c.Close()
	}
	t.Errorf("the server at %s did not go by SIGTERM within 15 s", address)
}
