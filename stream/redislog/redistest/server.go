package redistest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

func init() {
	// go-redis writes a line to standard error for every dial that fails while a
	// server comes up.
	logging.Disable()
}

// startTimeout bounds every wait for a process to come up or a group to form.
const startTimeout = 20 * time.Second

// Server is one Redis process. Its methods fail the test on trouble; they are
// called from the test's goroutine, [Server.Do] from any.
type Server struct {
	Addr string // 127.0.0.1:port
	Port int
	Dir  string // its working directory: dump.rdb, appendonlydir

	t    testing.TB
	bin  string
	args []string
	cmd  *exec.Cmd     // nil while it does not run
	done chan struct{} // closed when cmd has ended

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Start runs redis-server on a free port with these further arguments
// ("--appendonly", "yes"), without snapshots, and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, "redis-server", append([]string{"--save", "", "--appendonly", "no"}, args...))
}

// start runs bin; a leading argument that names a file is put first by the
// caller. It tries other ports when one was taken in between.
func start(t testing.TB, bin string, args []string) *Server {
	t.Helper()
	path, err := exec.LookPath(bin)
	if err != nil {
		t.Fatalf("redistest: %s is not installed (Debian: apt-get install redis-server redis-sentinel): %v", bin, err)
	}
	for try := 0; ; try++ {
		s := &Server{t: t, bin: path, args: args, Dir: t.TempDir()}
		s.Port = freePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
		if err := s.run(); err == nil {
			t.Cleanup(s.Kill)
			return s
		} else if try == 4 {
			t.Fatalf("redistest: %v\n%s", err, s.Log())
		}
		s.Kill()
	}
}

// freePort picks a port outside of what the kernel gives to clients, with room
// for a cluster's bus port 10,000 above it.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 12000 + rand.IntN(10000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		l.Close()
		return port
	}
	t.Fatal("redistest: no free port between 12000 and 22000")
	return 0
}

// run starts the process and waits until it answers PING.
func (s *Server) run() error {
	args := append([]string{}, s.args...)
	args = append(args, "--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.Dir, "--daemonize", "no")
	cmd := exec.Command(s.bin, args...)
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = logWriter{s}, logWriter{s}
	cmd.SysProcAttr = endWithUs()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	s.cmd, s.done = cmd, done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return s.waitReady()
}

// waitReady waits for the first good answer to PING.
func (s *Server) waitReady() error {
	deadline := time.Now().Add(startTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		select {
		case <-s.done:
			return fmt.Errorf("%s ended while starting", s.bin)
		case <-tick.C:
		}
		// An answer of another process on our port must not count, nor one of
		// ours that is still loading its data.
		ours := fmt.Sprintf("process_id:%d\r", s.cmd.Process.Pid)
		info, err := s.TryDo("INFO", "server")
		if err != nil || !strings.Contains(fmt.Sprint(info), ours) {
			continue
		}
		if _, err := s.TryDo("PING"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s did not answer within %v", s.bin, startTimeout)
}

type logWriter struct{ s *Server }

func (w logWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.log.Write(p)
}

// Log is what the process has written so far.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// URL is the server's address as a redis:// setting.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Client is a fresh go-redis client of this server, closed by the cleanup.
func (s *Server) Client() *redis.Client {
	c := newClient(s.Addr)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 2, PipelinePoolSize: -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// TryDo sends one command on a connection of its own and returns the answer;
// a nil reply is (nil, nil).
func (s *Server) TryDo(args ...any) (any, error) {
	c := newClient(s.Addr)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	v, err := c.Do(ctx, args...).Result()
	if err == redis.Nil {
		return nil, nil
	}
	return v, err
}

// Do is [Server.TryDo], failing the test on an error.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	v, err := s.TryDo(args...)
	if err != nil {
		s.t.Fatalf("redistest: %v: %v", args, err)
	}
	return v
}

// Kill ends the process by SIGKILL and waits for it. It may be called again.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// Stop ends the process by SHUTDOWN, which saves if snapshots are configured.
func (s *Server) Stop() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	_, _ = s.TryDo("SHUTDOWN")
	select {
	case <-s.done:
		s.cmd = nil
	case <-time.After(startTimeout):
		s.t.Fatalf("redistest: the server did not shut down\n%s", s.Log())
	}
}

// Restart runs the process again on the same port and directory and waits until
// it answers; one that still runs is killed first.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		s.t.Fatalf("redistest: restart: %v\n%s", err, s.Log())
	}
}

// RestartSlowly is [Server.Restart] with a load of the snapshot that takes a
// while, during which Redis answers LOADING.
func (s *Server) RestartSlowly() {
	s.t.Helper()
	args := s.args
	s.args = append(append([]string{}, args...), "--key-load-delay", "50", "--loading-process-events-interval-bytes", "1024")
	s.Restart()
	s.args = args
}

// Freeze stops the process by SIGSTOP: connections stay, nothing is answered.
func (s *Server) Freeze() {
	s.t.Helper()
	if err := freeze(s.cmd.Process); err != nil {
		s.t.Fatalf("redistest: freeze: %v", err)
	}
}

// Thaw lets a frozen process go on.
func (s *Server) Thaw() {
	s.t.Helper()
	if err := thaw(s.cmd.Process); err != nil {
		s.t.Fatalf("redistest: thaw: %v", err)
	}
}

// Save writes dump.rdb now and returns its bytes.
func (s *Server) Save() []byte {
	s.t.Helper()
	s.Do("SAVE")
	b, err := os.ReadFile(s.Dir + "/dump.rdb")
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	return b
}

// RestartFrom kills the process, puts an older snapshot in place and restarts:
// a log rolled back.
func (s *Server) RestartFrom(dump []byte) {
	s.t.Helper()
	s.Kill()
	if err := os.WriteFile(s.Dir+"/dump.rdb", dump, 0o600); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.Restart()
}
