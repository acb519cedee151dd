package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChannels(t *testing.T) {
	s := newSite(t)
	ids := s.add("news.uk", "one", "two")
	s.add("orders", "x")
	code, stdout, stderr := try(t, "channels")
	require.Zero(t, code, stderr)
	assert.Equal(t, "CHANNEL  READERS\nnews.uk  0\norders   0\n", stdout)
	code, stdout, _ = try(t, "channels", "--match=news.**", "--json")
	assert.Equal(t, []any{0, `{"channel":"news.uk","subscribers":0}` + "\n"}, []any{code, stdout})
	code, stdout, _ = try(t, "channels", "news.uk", "none")
	assert.Zero(t, code)
	assert.Equal(t, []string{"CHANNEL", "MESSAGES", "FIRST", "LAST", "READERS", "news.uk", "2", ids[0], ids[1], "0", "none", "0", "-", "-", "0"}, strings.Fields(stdout))
	code, stdout, _ = try(t, "channels", "none", "--json")
	assert.Equal(t, []any{0, `{"channel":"none","first":null,"last":null,"length":0,"subscribers":0}` + "\n"}, []any{code, stdout})

	s.kill()
	code, _, stderr = try(t, "channels", "--timeout=200ms")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "rejoin: gave up after 200ms")
	s.start()
}
