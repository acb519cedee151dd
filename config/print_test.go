package config

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestWriteYAMLGolden(t *testing.T) {
	c, err := given{
		file: "retention:\n  max_messages: 500\nchannels:\n  - match: quotes.**\n    rewind: 1\n    payload: 64KiB\n  - {match: \"*\", retention: {max_age: 90s}}\n",
		env: []string{"REJOIN_REDIS_URL=redis://app:hunter2@db:6379/0", "REJOIN_CORS_ORIGINS=http://[::1]:80,*",
			"REJOIN_AUTH_JWT_SECRET=hunter2://hunter2", "REJOIN_AUTH_ANONYMOUS_READ=open.*",
			"REJOIN_AUTH_KEYS=[{name: app, sha256: " + someHash + ", read: [a, b]}, {name: ops, sha256: " + strings.Repeat("0", 64) + ", admin: true}]"},
		args: []string{"--listen=127.0.0.1:9000", "--redis-prefix=on"},
	}.load(t)
	require.NoError(t, err)
	for setting, origin := range c.origins {
		if i := strings.Index(origin, "rejoin.yaml"); i >= 0 {
			c.origins[setting] = origin[i:]
		}
	}
	var got bytes.Buffer
	require.NoError(t, c.WriteYAML(&got))
	assert.NotContains(t, got.String(), "hunter2")

	const golden = "testdata/effective.yaml"
	if *update {
		require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got.String(), "see the difference with go test ./config -update")
}

func TestWhatIsPrintedLoadsAgain(t *testing.T) {
	c, err := given{
		file: "redis.prefix: \"yes\"\nchannels: [{match: \"*.a\", rewind: 3}, {match: \"**\"}]\ncors.origins: [\"http://[::1]:80\"]\n" +
			"auth.keys: [{name: app, sha256: " + someHash + ", read: [\"*\", \"a.**\"]}]\nauth.jwt: {jwks_file: x, algorithms: [ES256]}\n",
		env: []string{"REJOIN_REDIS_URL=redis://db:6379", "REJOIN_LIMITS_PAYLOAD=1000000"},
	}.load(t)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, c.WriteYAML(&text))
	again, err := given{file: text.String()}.load(t)
	require.NoError(t, err)
	c.origins, again.origins = nil, nil
	assert.Equal(t, c, again)
}

// Holds G78.
func TestMaskURL(t *testing.T) {
	for address, want := range map[string]string{
		"":                                       "",
		"redis://db:6379":                        "redis://db:6379",
		"redis://app:hunter2@db:6379/0":          "redis://app:***@db:6379/0",
		"redis://:hunter2@a:1,b:2":               "redis://:***@a:1,b:2",
		"redis://app@db":                         "redis://app@db",
		"redis://:p@ss/w?rd@db?db=1":             "redis://:***@db?db=1",
		"rediss://db?sentinel_password=a&db=1":   "rediss://db?sentinel_password=***&db=1",
		"hunter2":                                "***",
		"redis://u:hunter2@h/0?PASSWORD=hunter2": "redis://u:***@h/0?PASSWORD=***",
	} {
		assert.Equal(t, want, MaskURL(address))
	}
}

func TestValuesComeBackFromTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := Size(rapid.Int64Min(0).Draw(t, "size"))
		back, err := ParseSize(size.String())
		require.NoError(t, err)
		require.Equal(t, size, back)

		d := time.Duration(rapid.Int64().Draw(t, "duration"))
		again, err := time.ParseDuration(format(d))
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
	assert.Equal(t, "64KiB", Size(65536).String())
	assert.Equal(t, "1MB", Size(1e6).String())
	assert.Equal(t, "1025B", Size(1025).String())
	assert.Equal(t, "0B", Size(0).String())
	assert.Equal(t, "24h", format(24*time.Hour))
	assert.Equal(t, "1h0m5s", format(time.Hour+5*time.Second))
}

func TestDidYouMean(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		assert.Equal(t, c.want, edits(c.a, c.b), "%s %s", c.a, c.b)
	}
	assert.Equal(t, "", didYouMean("x", nil))
	assert.Equal(t, ": did you mean b.max?", didYouMean("max", []string{"a.min", "b.max"}))
}
