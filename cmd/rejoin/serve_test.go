package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/stream/redislog/redistest"
)

// program is a running rejoin of its own process.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *bufio.Scanner
	listen string // http://host:port
	admin  string
	lines  []string // of standard error until it served
}

// start runs the program on free ports until it serves.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := command(t, append([]string{"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"}, args...)...)
	for p.stderr.Scan() {
		p.lines = append(p.lines, p.stderr.Text())
		var line struct{ Message, Listen, Admin string }
		require.NoError(t, json.Unmarshal(p.stderr.Bytes(), &line), p.stderr.Text())
		if line.Message == "serving" {
			p.listen, p.admin = line.Listen, line.Admin
			return p
		}
	}
	t.Fatalf("it did not serve: %q", p.lines)
	return nil
}

func command(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "BE_THE_PROGRAM=1")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &program{t: t, cmd: cmd, stderr: bufio.NewScanner(stderr)}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return p
}

// wait returns the exit code and the rest of standard error.
func (p *program) wait() (code int, rest string) {
	p.t.Helper()
	var b strings.Builder
	for p.stderr.Scan() {
		b.WriteString(p.stderr.Text() + "\n")
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode(), b.String()
}

func (p *program) signal(sig os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

func (p *program) get(url string) (status int, body string) {
	p.t.Helper()
	res, err := http.Get(url)
	require.NoError(p.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return res.StatusCode, string(text)
}

func (p *program) publish(channel, payload string) (status int, body string) {
	p.t.Helper()
	res, err := http.Post(p.listen+"/v1/channels/"+channel+"/messages", "text/plain", strings.NewReader(payload))
	require.NoError(p.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	return res.StatusCode, string(text)
}

// events is an open event stream.
type events struct {
	t     *testing.T
	lines *bufio.Scanner
}

func (p *program) subscribe(query string) *events {
	p.t.Helper()
	res, err := http.Get(p.listen + "/v1/sse?" + query)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { res.Body.Close() })
	require.Equal(p.t, http.StatusOK, res.StatusCode)
	lines := bufio.NewScanner(res.Body)
	return &events{p.t, lines}
}

// until reads on to a line that begins like this.
func (s *events) until(prefix string) string {
	s.t.Helper()
	for s.lines.Scan() {
		if strings.HasPrefix(s.lines.Text(), prefix) {
			return s.lines.Text()
		}
	}
	s.t.Fatalf("the stream ended before %q: %v", prefix, s.lines.Err())
	return ""
}

// Holds G75.
func TestServeSaysWhatItIsAndWhoMayUseIt(t *testing.T) {
	p := start(t)
	out := strings.Join(p.lines, "\n")
	assert.Contains(t, out, "in-memory log: messages are lost when this process ends; set redis.url to keep them")
	assert.Contains(t, out, "no auth: everyone on this machine may read and publish")

	p = start(t, "--listen=0.0.0.0:0", "--auth-insecure")
	out = strings.Join(p.lines, "\n")
	assert.Contains(t, out, `"level":"warn"`)
	assert.Contains(t, out, "auth.insecure: everyone who can reach this server may read and publish")
}

func TestBothListenersServeTheirOwn(t *testing.T) {
	p := start(t)
	for _, base := range []string{p.listen, p.admin} {
		for _, path := range []string{"/healthz", "/readyz", "/readyz?log=1"} {
			status, body := p.get(base + path)
			assert.Equal(t, http.StatusOK, status, base+path+" "+body)
		}
	}
	status, body := p.get(p.admin + "/metrics")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "rejoin_log_up 1\n")
	status, _ = p.get(p.listen + "/metrics")
	assert.Equal(t, http.StatusNotFound, status)
}

func TestRulesHoldForTheirChannels(t *testing.T) {
	p := start(t, "--limits-payload=16B", `--channels=[
		{match: quotes.*, rewind: 1, payload: 4B},
		{match: short.**, retention: {max_messages: 2}}]`)

	status, body := p.publish("quotes.a", "12345")
	assert.Equal(t, http.StatusRequestEntityTooLarge, status, body)
	status, body = p.publish("other", "12345")
	assert.Equal(t, http.StatusCreated, status, body)
	status, body = p.publish("other", strings.Repeat("x", 17))
	assert.Equal(t, http.StatusRequestEntityTooLarge, status, body)

	for _, payload := range []string{"old", "new"} {
		status, body = p.publish("quotes.a", payload)
		require.Equal(t, http.StatusCreated, status, body)
	}
	s := p.subscribe("channel=quotes.a")
	s.until("event: rejoin.ready")
	assert.Equal(t, "data: new", func() string { s.until("id: "); return s.until("data: ") }())

	for i := range 5 {
		status, body = p.publish("short.a.b", fmt.Sprint(i))
		require.Equal(t, http.StatusCreated, status, body)
	}
	_, body = p.get(p.listen + "/v1/channels/short.a.b/messages?after=0-0")
	var page struct{ Messages []struct{ Payload string } }
	require.NoError(t, json.Unmarshal([]byte(body), &page), body)
	assert.Equal(t, []struct{ Payload string }{{"3"}, {"4"}}, page.Messages)
}

// Holds G51, G77.
func TestASignalSendsReadersAway(t *testing.T) {
	p := start(t, "--drain-window=1s")
	s := p.subscribe("channel=news")
	s.until("event: rejoin.ready")

	p.signal(syscall.SIGTERM)
	s.until("event: rejoin.move")
	assert.Equal(t, `data: {"within":1000}`, s.until("data: "))
	for s.lines.Scan() {
	}
	assert.Error(t, s.lines.Err(), "a stream is cut, never ended: a clean end stops some clients for good")

	code, rest := p.wait()
	assert.Equal(t, 0, code, rest)
	assert.Contains(t, rest, `"stopped"`)
}

// Holds G77.
func TestNotReadyWhileStopping(t *testing.T) {
	p := start(t, "--drain-window=1h")
	s := p.subscribe("channel=news")
	s.until("event: rejoin.ready")
	p.signal(os.Interrupt)
	s.until("event: rejoin.move")
	for _, base := range []string{p.listen, p.admin} {
		status, _ := p.get(base + "/readyz")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		status, _ = p.get(base + "/healthz")
		assert.Equal(t, http.StatusOK, status)
	}
	status, body := p.publish("news", "still here")
	assert.Equal(t, http.StatusCreated, status, body)

	p.signal(os.Interrupt)
	code, rest := p.wait()
	assert.Equal(t, 1, code)
	assert.Contains(t, rest, "rejoin: ended at once by a second signal, interrupt\n")
}

func TestAnAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	for setting, flag := range map[string]string{"listen": "--listen=", "admin.listen": "--admin-listen="} {
		other := "--admin-listen=127.0.0.1:0"
		if setting == "admin.listen" {
			other = "--listen=127.0.0.1:0"
		}
		code, stdout, stderr := try(t, "serve", other, flag+address)
		assert.Equal(t, 1, code)
		assert.Empty(t, stdout)
		assert.Equal(t, "rejoin: "+setting+": another program has "+address+": end it, or choose another address\n", stderr)
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	p := start(t)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get(p.listen + "/healthz")
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, 2, res.ProtoMajor)
}

// Holds G17.
func TestHeadersAreBounded(t *testing.T) {
	p := start(t, "--limits-header-bytes=4KiB")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.listen+"/healthz", nil)
	require.NoError(t, err)
	req.Header.Set("X-Long", strings.Repeat("x", 16<<10))
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, res.StatusCode)
}

// The command's context ends a server as the first signal does; nothing is left
// over (TestMain looks).
func TestServeInThisProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan int)
	go func() {
		code := run(ctx, []string{"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--log-format=json"}, io.Discard, w)
		w.Close()
		done <- code
	}()
	lines := bufio.NewScanner(r)
	for lines.Scan() && !strings.Contains(lines.Text(), `"serving"`) {
	}
	cancel()
	_, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	assert.Zero(t, <-done)
}

// A Redis that refuses this server stops the start with one line that says why.
func TestRedisThatRefuses(t *testing.T) {
	r := redistest.Start(t)
	r.Do("SET", "rejoin:{0}:partitions", "16")
	p := command(t, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--redis-url", r.URL())
	var lines []string
	for p.stderr.Scan() {
		lines = append(lines, p.stderr.Text())
	}
	require.Error(t, p.cmd.Wait())
	require.NotEmpty(t, lines)
	last := lines[len(lines)-1]
	assert.Contains(t, last, "16")
	assert.Contains(t, last, "32")
	assert.NotContains(t, strings.Join(lines, "\n"), "goroutine")
}
