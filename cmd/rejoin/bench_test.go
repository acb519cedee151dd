package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rejoin/cmd/rejoin/bench"
)

func TestBenchRefuses(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{`--transport "pigeon": want sse, ws or longpoll`, []string{"--transport", "pigeon"}},
		{"--metrics-url", []string{"--metrics-url", "127.0.0.1:8081"}},
		{"streams of one channel", []string{"floor", "--transport", "longpoll"}},
		{"--size 10: want at least 64", []string{"--size", "10"}},
		{`--pid "server": want name=PID`, []string{"--pid", "server"}},
		{"say whose with --pid server=PID", []string{"--compare-floor"}},
		{"the floor has no log", []string{"floor", "--life", "1s"}},
		{"--url: unknown flag", []string{"floor", "--url", "http://127.0.0.1:1"}},
		{"--subscribers 0", []string{"floor", "--subscribers", "0"}},
	} {
		code, _, stderr := try(t, append([]string{"bench"}, c.args...)...)
		assert.NotZero(t, code, c.args)
		assert.Contains(t, stderr, c.want)
	}
}

func TestBenchDefaults(t *testing.T) {
	cmd := newBenchCommand()
	for name, want := range map[string]string{
		"url": "[http://127.0.0.1:8080]", "transport": "sse", "subscribers": "1000", "channels": "1", "rate": "100",
		"size": "500", "duration": "10s", "life": "0s", "slow": "0", "publishers": "8", "connect-rate": "4000",
		"pid": "[]", "json": "false", "prefix": "bench", "compare-floor": "false",
		"channels-per-connection": "1", "metrics-url": "", "settle": "2s", "report": "",
	} {
		f := cmd.Flags().Lookup(name)
		require.NotNil(t, f, name)
		assert.Equal(t, want, f.DefValue, name)
	}
}

// TestBenchShow: the JSON is one document, and a loss is the exit code's error
// beside it.
func TestBenchShow(t *testing.T) {
	r := &bench.Result{Published: 1, Expected: 1, Lost: 1}
	f := benchFlags{json: true}
	var out bytes.Buffer
	err := f.show(&out, r, r.Err())
	require.ErrorContains(t, err, "1 lost")
	var back bench.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, int64(1), back.Lost)
}
