//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// server is one process of the program that serves. Its methods are called from
// the test's goroutine.
type server struct {
	url   string // http://127.0.0.1:port; stays over a restart
	admin string

	t    *testing.T
	path string
	args []string
	cmd  *exec.Cmd
	over chan struct{} // closed when the process has ended and its log is read

	mu  sync.Mutex // guards log
	log strings.Builder
}

// serve starts a server on free ports and waits until it serves.
func serve(t *testing.T, program func() (string, error), args ...string) *server {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, path: path, args: append(args, "--log-format", "json", "--admin-listen", "127.0.0.1:0")}
	s.start("127.0.0.1:0")
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", s.url, s.written())
		}
	})
	return s
}

func (s *server) start(address string) {
	s.t.Helper()
	s.cmd = exec.Command(s.path, append([]string{"serve", "--listen", address}, s.args...)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	serving := make(chan [2]string, 1)
	s.over = make(chan struct{})
	go s.follow(stderr, serving, s.over)
	select {
	case at := <-serving:
		s.url, s.admin = at[0], at[1]
	case <-s.over:
		s.t.Fatalf("the server ended while it started:\n%s", s.written())
	case <-time.After(patience):
		s.t.Fatalf("the server does not say that it serves:\n%s", s.written())
	}
}

// follow keeps the log, and tells the addresses once the server has them.
func (s *server) follow(stderr io.Reader, serving chan<- [2]string, over chan<- struct{}) {
	defer close(over)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		s.mu.Lock()
		s.log.WriteString(lines.Text() + "\n")
		s.mu.Unlock()
		var line struct{ Message, Listen, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			serving <- [2]string{line.Listen, line.Admin}
		}
	}
	_ = s.cmd.Wait()
}

// written is the log so far.
func (s *server) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// kill ends the process by SIGKILL.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.over
}

// restart starts a server at the address of the one that was killed.
func (s *server) restart() {
	s.t.Helper()
	s.start(strings.TrimPrefix(s.url, "http://"))
}

// stop ends the process by SIGTERM and returns its exit code.
func (s *server) stop() int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.over:
	case <-time.After(patience):
		s.t.Fatal("the server does not end by SIGTERM")
	}
	return s.cmd.ProcessState.ExitCode()
}

// metric is the value of a metric without labels.
func (s *server) metric(name string) float64 {
	s.t.Helper()
	res, err := web.Get(s.admin + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return v
		}
	}
	s.t.Fatalf("no metric %s", name)
	return 0
}

// eventually waits until the condition holds, asked again and again.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// web is for calls that are answered at once; it keeps no connection.
var web = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
