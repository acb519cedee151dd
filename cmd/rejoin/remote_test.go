package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/api"
	"rejoin/delivery"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

// site is a server in this process, for the commands that talk to one. It can be
// killed and started again on the same address and log.
type site struct {
	t       *testing.T
	log     stream.Log
	address string
	http    *http.Server
	broker  *delivery.Broker
	serving sync.WaitGroup
}

func newSite(t *testing.T) *site {
	log := memlog.New(memlog.Options{})
	s := &site{t: t, log: log, address: "127.0.0.1:0"}
	s.start()
	t.Setenv(urlEnv, "http://"+s.address)
	t.Cleanup(func() {
		s.kill()
		require.NoError(t, log.Close())
	})
	return s
}

func (s *site) start() {
	socket, err := net.Listen("tcp", s.address)
	require.NoError(s.t, err)
	s.address = socket.Addr().String()
	s.broker = delivery.New(s.log, delivery.Options{})
	handlers := api.New(api.Options{Log: s.log, Broker: s.broker, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond})
	s.http = api.NewServer(handlers.Public, 0)
	s.serving.Go(func() { _ = s.http.Serve(socket) })
}

func (s *site) kill() {
	_ = s.http.Close()
	s.broker.Close()
	s.serving.Wait()
}

// add appends messages.
func (s *site) add(channel string, payloads ...string) (ids []string) {
	for _, p := range payloads {
		done, err := s.log.Append(s.t.Context(), stream.Message{Channel: channel, Payload: p})
		require.NoError(s.t, err)
		ids = append(ids, done.ID.String())
	}
	return ids
}

// entries is what a channel has.
func (s *site) entries(channel string) []stream.Entry {
	page, err := s.log.Read(s.t.Context(), stream.Query{Channel: channel, Limit: 100_000})
	require.NoError(s.t, err)
	return page.Entries
}

// payloads is what a channel's messages say.
func (s *site) payloads(channel string) []string {
	var all []string
	for _, e := range s.entries(channel) {
		all = append(all, e.Payload)
	}
	return all
}

// process is the program in a process of its own.
type process struct {
	*exec.Cmd
	t              *testing.T
	stdin          io.WriteCloser
	stdout, stderr *collected
}

// collected is what a process wrote so far.
type collected struct {
	mu   sync.Mutex // guards the following
	buf  bytes.Buffer
	more chan struct{} // closed when there is more
}

func newCollected() *collected { return &collected{more: make(chan struct{})} }

func (c *collected) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.more)
	c.more = make(chan struct{})
	return c.buf.Write(p)
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// until waits until it holds text.
func (c *collected) until(t *testing.T, text string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		c.mu.Lock()
		found, more := strings.Contains(c.buf.String(), text), c.more
		c.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("no %q in %q", text, c.String())
		}
	}
}

// launch starts the program.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0], args...), t: t, stdout: newCollected(), stderr: newCollected()}
	p.Env = append(os.Environ(), "BE_THE_PROGRAM=1")
	p.Stdout, p.Stderr = p.stdout, p.stderr
	var err error
	p.stdin, err = p.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// ends waits for the end and returns the exit code.
func (p *process) ends() int {
	p.t.Helper()
	err := p.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	require.NoError(p.t, err)
	return 0
}

// The token comes from the flag or the environment, and is shown nowhere.
func TestTokenOfCommands(t *testing.T) {
	var mu sync.Mutex
	var got []string
	srv := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = append(got, r.Header.Get("Authorization"))
		mu.Unlock()
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"status":403,"code":"forbidden","detail":"no"}`)
	})}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(socket) })
	t.Cleanup(func() { _ = srv.Close(); serving.Wait() })
	t.Setenv(urlEnv, "http://"+socket.Addr().String())
	t.Setenv(tokenEnv, "s3cret-of-env")
	for _, args := range []string{"publish news hi", "subscribe news", "channels", "subscribe news --token=s3cret-of-flag --transport=ws", "publish news hi there"} {
		code, stdout, stderr := try(t, strings.Fields(args)...)
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "403 forbidden: no")
		assert.NotContains(t, stdout+stderr, "s3cret")
	}
	assert.Equal(t, []string{"Bearer s3cret-of-env", "Bearer s3cret-of-env", "Bearer s3cret-of-env", "Bearer s3cret-of-flag", "Bearer s3cret-of-env"}, got)
	for _, cmd := range []string{"publish", "subscribe", "channels"} {
		_, stdout, stderr := try(t, cmd, "--help")
		assert.NotContains(t, stdout+stderr, "s3cret")
	}
	t.Setenv(tokenEnv, "s3cret\n")
	code, _, stderr := try(t, "channels")
	assert.Equal(t, 2, code)
	assert.NotContains(t, stderr, "s3cret")
	code, _, stderr = try(t, "config", "--check") // not a setting of servers
	assert.Zero(t, code, stderr)
}

func TestUsageErrorsOfCommands(t *testing.T) {
	for args, want := range map[string]string{
		"publish":                             "which channel? See rejoin publish --help",
		"subscribe":                           "which channel? See rejoin subscribe --help",
		"publish a/b x":                       `"a/b": not a channel name`,
		"subscribe news a/b":                  `"a/b": not a channel name`,
		"channels a/b":                        `"a/b": not a channel name`,
		"publish news x --file y":             "--file: given beside a payload",
		"publish news x --timeout 0s":         "--timeout: want more than 0",
		"publish news x --evnet=y":            "--evnet: unknown flag: did you mean --event?",
		"publish news x --url localhost:8080": "does not read as http://host:port",
		"subscribe news --from yesterday":     `--from: "yesterday": want earliest, -5, 10m`,
		"subscribe news --from -x":            `--from: "-x"`,
		"subscribe news --from -0":            `--from: "-0"`,
		"subscribe a b --from 5-5":            "--from: the id of one channel says nothing about several",
		"subscribe news --transport carrier":  `--transport: "carrier": want sse, longpoll or ws`,
		"subscribe news --count=-1":           "--count: want 1 or more",
		"channels --match a*":                 "--match: stream: not a channel pattern",
		"completion":                          "for which shell?",
		"completion csh":                      "for which shell?",
		"channels --match a b":                "--match: given beside a channel",
	} {
		code, stdout, stderr := try(t, strings.Fields(args)...)
		assert.Equal(t, 2, code, args)
		assert.Empty(t, stdout, args)
		assert.Contains(t, stderr, want, args)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

func TestCompletion(t *testing.T) {
	s := newSite(t)
	s.add("news.uk", "x")
	s.add("orders", "x")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, stderr := try(t, "completion", shell)
		assert.Zero(t, code, stderr)
		assert.Contains(t, stdout, "rejoin")
	}
	for args, want := range map[string]string{
		"subscribe|n":              "news.uk\n:4\n",
		"subscribe|news.uk|":       "news.uk\norders\n:4\n",
		"publish|o":                "orders\n:4\n",
		"publish|orders|":          ":4\n",
		"channels|":                "news.uk\norders\n:4\n",
		"subscribe|--transport|":   "sse\nlongpoll\nws\n:4\n",
		"subscribe|--url|ftp:||n|": ":4\n",
	} {
		_, stdout, _ := try(t, append([]string{"__complete"}, strings.Split(args, "|")...)...)
		assert.Equal(t, want, stdout, args)
	}
}
