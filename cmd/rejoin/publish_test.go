package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

func TestPublishArguments(t *testing.T) {
	s := newSite(t)
	code, stdout, stderr := try(t, "publish", "news", "It rains.", "", "a\nb", "--event=weather", "--key=uk")
	require.Zero(t, code, stderr)
	entries := s.entries("news")
	require.Len(t, entries, 3)
	assert.Equal(t, fmt.Sprintf("%v\n%v\n%v\n", entries[0].ID, entries[1].ID, entries[2].ID), stdout)
	assert.Regexp(t, `^published 3 on news in \d+\S+\n$`, stderr)
	assert.Equal(t, []string{"It rains.", "", "a\nb"}, s.payloads("news"))
	assert.Equal(t, []string{"weather", "uk"}, []string{entries[2].Event, entries[2].Key})

	code, stdout, stderr = try(t, "publish", "news", "one", "--json")
	assert.Equal(t, []any{0, ""}, []any{code, stderr})
	assert.Equal(t, fmt.Sprintf(`{"id":"%v","channel":"news"}`+"\n", s.entries("news")[3].ID), stdout)

	code, stdout, stderr = try(t, "publish", "news", "two", "three", "-q")
	assert.Equal(t, []any{0, "", ""}, []any{code, stdout, stderr})
	assert.Len(t, s.entries("news"), 6)
}

// Holds G120.
func TestPublishIsSafeToRepeat(t *testing.T) {
	s := newSite(t)
	var first string
	for i, args := range []string{"publish a x --idempotency-key k", "publish b x y z --idempotency-key k"} {
		for range 2 {
			code, stdout, stderr := try(t, strings.Fields(args)...)
			require.Zero(t, code, stderr)
			if first != "" {
				assert.Equal(t, first, stdout)
			}
			first = stdout
		}
		assert.Len(t, s.entries([]string{"a", "b"}[i]), 1+2*i)
		first = ""
	}
	code, _, stderr := try(t, "publish", "a", "another", "--idempotency-key", "k")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "422 idempotency_conflict")
	assert.Contains(t, stderr, "nothing was appended")
}

func TestPublishAFile(t *testing.T) {
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "result.json")
	content := "{\n \"a\": 1\r\n}\n"
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	code, _, stderr := try(t, "publish", "news", "--file", path)
	require.Zero(t, code, stderr)
	p := launch(t, "publish", "news", "--file=-")
	_, err := io.WriteString(p.stdin, content)
	require.NoError(t, err)
	require.NoError(t, p.stdin.Close())
	require.Zero(t, p.ends(), p.stderr)
	assert.Equal(t, []string{content, content}, s.payloads("news"))

	code, _, stderr = try(t, "publish", "news", "--file", path+"x")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "no such file")
}

// Lines are published as they come, each alone or many together, in order.
func TestPublishLines(t *testing.T) {
	s := newSite(t)
	p := launch(t, "publish", "news", "--json")
	_, err := io.WriteString(p.stdin, "first\n\nthi")
	require.NoError(t, err)
	p.stdout.until(t, "-2\"")
	_, err = io.WriteString(p.stdin, "rd\r\n")
	require.NoError(t, err)
	p.stdout.until(t, "-3\"")
	want := []string{"first", "", "third"}
	var rest strings.Builder
	for i := range 750 {
		want = append(want, fmt.Sprint("line ", i))
		fmt.Fprintf(&rest, "line %d\n", i)
	}
	_, err = io.WriteString(p.stdin, rest.String()+"without an end")
	require.NoError(t, err)
	require.NoError(t, p.stdin.Close())
	require.Zero(t, p.ends(), p.stderr)
	assert.Equal(t, append(want, "without an end"), s.payloads("news"))
	assert.Regexp(t, `^published 754 on news in \S+, \d+/s\n$`, p.stderr.String())
	assert.Equal(t, 754, strings.Count(p.stdout.String(), "\n"))
}

// What is wrong with a line is told, and the others pass.
func TestPublishALineThatIsRefused(t *testing.T) {
	s := newSite(t)
	p := launch(t, "publish", "news", "-q")
	_, err := io.WriteString(p.stdin, "one\n"+strings.Repeat("x", 2<<20)+"\n\xff\nfour\n")
	require.NoError(t, err)
	require.NoError(t, p.stdin.Close())
	assert.Equal(t, 1, p.ends())
	assert.Equal(t, []string{"one", "four"}, s.payloads("news"))
	lines := strings.Split(p.stderr.String(), "\n")
	require.Len(t, lines, 4, p.stderr)
	assert.Contains(t, lines[0], "rejoin: line 2: publish to news: 413 payload_too_large")
	assert.Contains(t, lines[1], "rejoin: line 3: publish to news: 400 bad_request")
	assert.Equal(t, "rejoin: 2 of 4 were refused", lines[2])
}

// A server that is away is waited for; each line is published once.
// Holds G120.
func TestPublishAcrossARestart(t *testing.T) {
	s := newSite(t)
	p := launch(t, "publish", "news")
	_, err := io.WriteString(p.stdin, "one\n")
	require.NoError(t, err)
	p.stdout.until(t, "-1\n")
	s.kill()
	_, err = io.WriteString(p.stdin, "two\nthree\n")
	require.NoError(t, err)
	p.stderr.until(t, "not published yet: http://"+s.address)
	s.start()
	p.stdout.until(t, "-3\n")
	require.NoError(t, p.stdin.Close())
	assert.Zero(t, p.ends(), p.stderr)
	assert.Equal(t, []string{"one", "two", "three"}, s.payloads("news"))

	s.kill()
	code, stdout, stderr := try(t, "publish", "news", "four", "--timeout=300ms")
	assert.Equal(t, 1, code)
	assert.Empty(t, stdout)
	assert.Regexp(t, `(?m)^rejoin: publish to news: gave up after 300ms; .*; nothing was appended$`, stderr)
	s.start()
}

func TestPublishToAnEndedChannel(t *testing.T) {
	s := newSite(t)
	_, err := s.log.Append(t.Context(), stream.Message{Channel: "job", End: stream.EndAlone})
	require.NoError(t, err)
	code, _, stderr := try(t, "publish", "job", "a", "b")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "rejoin: message 1: publish to job: 409 channel_ended")
}
