package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rejoin/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain runs the tests, or, started by one of them, the program itself.
func TestMain(m *testing.M) {
	if os.Getenv("BE_THE_PROGRAM") != "" {
		main()
	}
	for _, kv := range os.Environ() { // the tests' own settings only
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, config.EnvPrefix) {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// try runs the program and returns its exit code and output.
func try(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "see the difference with go test ./cmd/rejoin -update")
}

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		golden string
		args   []string
	}{
		{"help.txt", []string{"--help"}},
		{"help-serve.txt", []string{"serve", "-h"}},
		{"help-publish.txt", []string{"publish", "-h"}},
		{"help-subscribe.txt", []string{"subscribe", "-h"}},
		{"help-channels.txt", []string{"channels", "-h"}},
		{"help-completion.txt", []string{"completion", "-h"}},
	} {
		code, stdout, stderr := try(t, c.args...)
		assert.Zero(t, code)
		assert.Empty(t, stderr)
		golden(t, c.golden, stdout)
	}
}

func TestHelpNamesEveryFlagOnLinesThatFit(t *testing.T) {
	root := newRoot()
	for _, cmd := range append(root.Commands(), root) {
		_, stdout, _ := try(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		for line := range strings.Lines(stdout) {
			assert.LessOrEqual(t, len(strings.TrimRight(line, "\n")), lineWidth, line)
		}
		if cmd == root {
			continue
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			row := regexp.MustCompile(`(?m)^  (-.,|   ) --` + f.Name + ` `)
			assert.Len(t, row.FindAllString(stdout, -1), 1, "%s --%s", cmd.Name(), f.Name)
		})
	}
}

func TestUsageErrors(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("channels:\n  - match: a.**.b\n"), 0o600))
	for _, c := range []struct{ args, want string }{
		{"verson", `unknown command "verson": did you mean version?`},
		{"srve --listen=127.0.0.1:0", `unknown command "srve": did you mean serve?`},
		{"--lissten=x", "--lissten: unknown flag: did you mean --listen?"},
		{"serve --listen=0.0.0.0:0", "--listen: listen: 0.0.0.0:0 can be reached from other machines, and nothing says who may read and publish: " +
			"set auth.keys, auth.jwt or auth.anonymous, or listen on 127.0.0.1, or set auth.insecure: true if everyone there may do everything"},
		{"frobnicate", `unknown command "frobnicate": see rejoin --help`},
		{"config x", `"x" is one argument too many: see rejoin config --help`},
		{"config --chek", "--chek: unknown flag: did you mean --check?"},
		{"config --redis-uri=x", "--redis-uri: unknown flag: did you mean --redis-url?"},
		{"config --auth-anonymous-read=a.**.b", `--auth-anonymous-read: auth.anonymous.read: stream: not a channel pattern: "a.**.b": ** stands last`},
		{"config --auth-keys=[a]", "--auth-keys: auth.keys[0]: want settings, each as name: value"},
		{"config --check --auth-jwt-public-key-file=/no/such/file", "--auth-jwt-public-key-file: auth.jwt.public_key_file: open /no/such/file: no such file or directory"},
		{"serve --auth-jwt-jwks-file=/dev/null", "--auth-jwt-jwks-file: auth.jwt.jwks_file: not a set of keys: want JSON, {\"keys\":[…]}"},
		{"config --check --tls-cert=/no/such/cert --tls-key=/no/such/key", "--tls-cert: tls.cert: stat /no/such/cert: no such file or directory"},
		{"config --check --retry-min=soon", `--retry-min: retry.min: "soon" is not a duration: write such as 500ms, 2s, 5m or 24h`},
		{"config --check --config=" + bad, bad + `:2: channels[0].match: stream: not a channel pattern: "a.**.b": ** stands last`},
	} {
		code, stdout, stderr := try(t, strings.Fields(c.args)...)
		assert.Equal(t, 2, code, c.args)
		assert.Empty(t, stdout, c.args)
		assert.Equal(t, "rejoin: "+c.want+"\n", stderr)
	}
}

func TestConfigShowsWhatIsInEffect(t *testing.T) {
	t.Setenv("REJOIN_REDIS_URL", "redis://app:hunter2@db:6379")
	code, stdout, stderr := try(t, "config", "--retention-max-messages=5")
	assert.Zero(t, code, stderr)
	assert.Contains(t, stdout, "  url: redis://app:***@db:6379 # REJOIN_REDIS_URL\n")
	assert.Contains(t, stdout, "  max_messages: 5 # --retention-max-messages\n")
	assert.Contains(t, stdout, "  prefix: rejoin\n")

	path := filepath.Join(t.TempDir(), "rejoin.yaml")
	require.NoError(t, os.WriteFile(path, []byte(stdout), 0o600))
	code, stdout, stderr = try(t, "config", "--check", "--config", path)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "The settings are good.\n", stdout)
}

func TestVersion(t *testing.T) {
	code, stdout, _ := try(t, "version")
	assert.Zero(t, code)
	assert.Regexp(t, `^rejoin \S+ `+runtime.Version()+` `+runtime.GOOS+`/`+runtime.GOARCH+"\n$", stdout)

	code, stdout, _ = try(t, "version", "--json")
	assert.Zero(t, code)
	var b build
	require.NoError(t, json.Unmarshal([]byte(stdout), &b))
	assert.Equal(t, readBuild(), b)

	code, stdout, _ = try(t, "--version")
	assert.Zero(t, code)
	assert.Equal(t, b.Version+"\n", stdout)
}
