package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

func TestSubscribePrintsPayloads(t *testing.T) {
	s := newSite(t)
	ids := s.add("news", "one", "two\nlines", "\x1b[31mthree")
	for _, transport := range []string{"sse", "longpoll", "ws"} {
		code, stdout, stderr := try(t, "subscribe", "news", "--from=earliest", "--count=3", "--transport", transport)
		assert.Equal(t, []any{0, "one\ntwo\nlines\n\x1b[31mthree\n", ""}, []any{code, stdout, stderr}, transport)
	}
	code, stdout, stderr := try(t, "subscribe", "news", "--from", ids[0], "-n1", "--json")
	require.Zero(t, code, stderr)
	var m map[string]string
	require.NoError(t, json.Unmarshal([]byte(stdout), &m))
	delete(m, "time")
	assert.Equal(t, map[string]string{"channel": "news", "id": ids[1], "payload": "two\nlines", "cursor": ids[1]}, m)

	for from, want := range map[string]string{
		"-1": "\x1b[31mthree\n", "1h": "one\n", "2020-01-31T12:00:00Z": "one\n", "1577836800000": "one\n", "0": "one\n",
	} {
		code, stdout, stderr := try(t, "subscribe", "news", "--from", from, "-n1")
		assert.Equal(t, []any{0, want, ""}, []any{code, stdout, stderr}, from)
	}

	s.add("olds", "x")
	code, stdout, stderr = try(t, "subscribe", "news", "olds", "--from=earliest", "-n4", "--json")
	require.Zero(t, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &m))
	require.True(t, strings.HasPrefix(m["cursor"], "1~"), m["cursor"])
	code, stdout, stderr = try(t, "subscribe", "news", "olds", "--from", m["cursor"], "-n2", "--json")
	require.Zero(t, code, stderr)
	assert.Equal(t, lines[2:], strings.Split(strings.TrimSpace(stdout), "\n"))
}

// It follows through a restart of the server, tells what happens on standard
// error, and says how to go on when it is stopped.
// Holds G120.
func TestSubscribeAcrossARestart(t *testing.T) {
	s := newSite(t)
	s.add("news", "one")
	p := launch(t, "subscribe", "news", "--from=earliest")
	p.stdout.until(t, "one\n")
	s.kill()
	s.add("news", "two")
	p.stderr.until(t, "rejoin: not connected: ")
	s.start()
	p.stdout.until(t, "two\n")
	p.stderr.until(t, "rejoin: connected again\n")
	ids := s.add("news", "three")
	p.stdout.until(t, "three\n")
	require.NoError(t, p.Process.Signal(os.Interrupt))
	assert.Zero(t, p.ends())
	assert.Equal(t, "one\ntwo\nthree\n", p.stdout.String())
	assert.True(t, strings.HasSuffix(p.stderr.String(), "rejoin: go on from here with --from "+ids[0]+"\n"), p.stderr.String())
	assert.Equal(t, 3, strings.Count(p.stderr.String(), "\n"), p.stderr.String())
}

func TestSubscribeTellsGapsAndEnds(t *testing.T) {
	s := newSite(t)
	ids := s.add("job", "one", "two", "three")
	require.NoError(t, s.log.Delete(t.Context(), "job"))
	s.add("job", "four")
	_, err := s.log.Append(t.Context(), stream.Message{Channel: "job", End: stream.EndAlone})
	require.NoError(t, err)
	code, stdout, stderr := try(t, "subscribe", "job", "--from", ids[0])
	assert.Equal(t, []any{0, "four\n", "rejoin: 2 messages are missing here: they are no longer kept\nrejoin: job has ended\n"}, []any{code, stdout, stderr})
	code, _, stderr = try(t, "subscribe", "job", "--from", ids[0], "-q")
	assert.Equal(t, []any{0, "rejoin: 2 messages are missing here: they are no longer kept\n"}, []any{code, stderr})
	code, _, stderr = try(t, "subscribe", "job", "--from", "5-5", "-n1")
	assert.Zero(t, code)
	assert.Contains(t, stderr, "the log was lost or is another one")
}

// A reader that has had enough ends it without a word.
func TestSubscribeIntoAClosedPipe(t *testing.T) {
	s := newSite(t)
	s.add("news", "one")
	p := launchInto(t, "subscribe", "news", "--from=earliest")
	b := make([]byte, 4)
	_, err := io.ReadFull(p.out, b)
	require.NoError(t, err)
	require.NoError(t, p.out.Close())
	s.add("news", "two", "three")
	err = p.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		status := e.Sys().(syscall.WaitStatus)
		assert.Equal(t, syscall.SIGPIPE, status.Signal(), "%v", err)
	} else {
		assert.NoError(t, err)
	}
	assert.Empty(t, p.stderr.String())
}

type piped struct {
	*exec.Cmd
	out    io.ReadCloser
	stderr *collected
}

// launchInto starts the program with a pipe as its output.
func launchInto(t *testing.T, args ...string) *piped {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p := &piped{Cmd: exec.CommandContext(ctx, os.Args[0], args...), stderr: newCollected()}
	p.Env = append(os.Environ(), "BE_THE_PROGRAM=1")
	p.Cmd.Stderr = p.stderr
	var err error
	p.out, err = p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	return p
}
