package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// given is one start of the program.
type given struct {
	file string   // text of the file; "" for none
	env  []string // NAME=value
	args []string
}

// load reads the settings as the program does; "FILE" in errors and origins is
// the file's path.
func (g given) load(t *testing.T) (*Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("rejoin", pflag.ContinueOnError)
	AddFlags(flags)
	args := g.args
	if g.file != "" {
		args = append([]string{"--config", writeFile(t, g.file)}, args...)
	}
	require.NoError(t, flags.Parse(args))
	return Load(flags, g.env)
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rejoin.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDefaults(t *testing.T) {
	c, err := given{}.load(t)
	require.NoError(t, err)
	want := Default()
	want.origins = map[string]string{}
	assert.Equal(t, &want, c)
}

// samples has for each setting another value than its default.
var samples = []struct {
	name, text string
	want       any
}{
	{"listen", "127.0.0.1:9000", "127.0.0.1:9000"},
	{"admin.listen", "[::1]:0", "[::1]:0"},
	{"redis.url", "redis://localhost:6379/1", "redis://localhost:6379/1"},
	{"redis.prefix", "app:1", "app:1"},
	{"redis.partitions", "64", 64},
	{"redis.timeout", "750ms", 750 * time.Millisecond},
	{"memory.bytes", "1GiB", 1 * GiB},
	{"publish.idempotency_ttl", "1h", time.Hour},
	{"retention.max_messages", "50", 50},
	{"retention.max_age", "10m", 10 * time.Minute},
	{"retention.channel_ttl", "90m", 90 * time.Minute},
	{"retry.min", "100ms", 100 * time.Millisecond},
	{"retry.max", "1m", time.Minute},
	{"drain.window", "30s", 30 * time.Second},
	{"limits.payload", "64 kb", Size(64000)},
	{"limits.connections", "5000", 5000},
	{"limits.connection_age", "90m", 90 * time.Minute},
	{"limits.channels_per_connection", "500", 500},
	{"limits.header_bytes", "131072", 128 * KiB},
	{"cors.origins", "https://a.example, http://localhost:3000", []string{"https://a.example", "http://localhost:3000"}},
	{"auth.insecure", "true", true},
	{"auth.keys", `[{name: app, sha256: ` + someHash + `, publish: [news.*], read: ["news.**", a], admin: true}]`, []Key{{
		Name: "app", SHA256: someHash, Publish: []string{"news.*"}, Read: []string{"news.**", "a"}, Admin: true,
	}}},
	{"auth.jwt.secret", "a://secret,#", "a://secret,#"},
	{"auth.jwt.public_key_file", "/etc/rejoin/public.pem", "/etc/rejoin/public.pem"},
	{"auth.jwt.jwks_file", "/etc/rejoin/jwks.json", "/etc/rejoin/jwks.json"},
	{"auth.jwt.jwks_url", "https://id.example/jwks", "https://id.example/jwks"},
	{"auth.jwt.algorithms", "ES256, EdDSA", []string{"ES256", "EdDSA"}},
	{"auth.jwt.issuer", "https://id.example", "https://id.example"},
	{"auth.jwt.audience", "rejoin", "rejoin"},
	{"auth.anonymous.read", "open.*, news", []string{"open.*", "news"}},
	{"auth.anonymous.publish", "box", []string{"box"}},
	{"tls.cert", "/etc/rejoin/tls.crt", "/etc/rejoin/tls.crt"},
	{"tls.key", "/etc/rejoin/tls.key", "/etc/rejoin/tls.key"},
	{"log.level", "debug", "debug"},
	{"log.format", "json", "json"},
	{"channels", `[{match: "quotes.**", retention: {max_age: 1m}, rewind: 1}]`, []Channel{{
		Match:     "quotes.**",
		Retention: Retention{MaxMessages: 1000, MaxAge: time.Minute, ChannelTTL: 168 * time.Hour},
		Rewind:    1,
		Payload:   1 * MiB,
	}}},
}

const someHash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

// needs are settings without which another is refused.
var needs = map[string][]string{
	"auth.jwt.algorithms": {"--auth-jwt-jwks-url=https://id.example"},
	"auth.jwt.issuer":     {"--auth-jwt-secret=s"},
	"auth.jwt.audience":   {"--auth-jwt-secret=s"},
	"tls.cert":            {"--tls-key=k"},
	"tls.key":             {"--tls-cert=c"},
}

// Holds G73.
func TestEverySettingFromEverySource(t *testing.T) {
	var named []string
	for _, s := range samples {
		named = append(named, s.name)
	}
	var all []string
	for _, s := range Settings() {
		all = append(all, s.Name)
	}
	require.ElementsMatch(t, all, named, "each setting has one sample")

	for _, sample := range samples {
		s := find(Settings(), sample.name)
		value := sample.text
		if value == "[::1]:0" {
			value = `"[::1]:0"` // a plain scalar of YAML does not begin with [
		}
		nested := strings.ReplaceAll(s.Name, ".", ": {") + ": " + value + strings.Repeat("}", strings.Count(s.Name, "."))
		if list, ok := sample.want.([]string); ok {
			quoted := `["` + strings.Join(list, `", "`) + `"]`
			nested = strings.Replace(nested, ": "+value, ": "+quoted, 1)
		}
		if s.Name == "auth.jwt.secret" {
			nested = "auth:\n  jwt:\n    secret: '" + sample.text + "'\n"
		}
		for source, g := range map[string]given{
			"file, nested": {file: nested},
			"file, dotted": {file: s.Name + ": " + value},
			"environment":  {env: []string{s.Env + "=" + sample.text}},
			"flag":         {args: []string{"--" + s.Flag + "=" + sample.text}},
		} {
			t.Run(s.Name+"/"+source, func(t *testing.T) {
				g.args = append(g.args, needs[s.Name]...)
				c, err := g.load(t)
				require.NoError(t, err)
				got := reflect.ValueOf(c).Elem().FieldByIndex(s.index)
				assert.Equal(t, sample.want, got.Interface())
				assert.NotEmpty(t, c.Origin(s.Name))
				// All others are as by default.
				got.Set(reflect.ValueOf(Default()).FieldByIndex(s.index))
				c.origins = nil
				if needs[s.Name] == nil {
					assert.Equal(t, Default(), *c)
				}
			})
		}
	}
}

func TestNamesAreUnambiguous(t *testing.T) {
	seen := map[string]string{configEnv: "the file", "--" + configFlag: "the file"}
	for _, s := range Settings() {
		names := []string{s.Env, "--" + s.Flag}
		if s.Secret {
			names = append(names, s.Env+fileSuffix)
		}
		for _, name := range names {
			assert.Empty(t, seen[name], "%s is also %s", name, s.Name)
			seen[name] = s.Name
		}
	}
	s := find(Settings(), "publish.idempotency_ttl")
	assert.Equal(t, "REJOIN_PUBLISH_IDEMPOTENCY_TTL", s.Env)
	assert.Equal(t, "publish-idempotency-ttl", s.Flag)
}

func TestEverySettingIsDescribedAndItsDefaultIsGood(t *testing.T) {
	all := Settings()
	for _, elements := range listed() {
		all = append(all, elements...)
	}
	require.Len(t, listed(), 2)
	for _, s := range all {
		assert.NotEmpty(t, s.Help, s.Name)
		if name := s.tag.Get("check"); name != "" {
			assert.NotNil(t, checks[name], s.Name)
		}
		lo, hi := s.limits() // panics on bad tags
		switch s.typ {
		case reflect.TypeFor[string]():
			assert.True(t, s.tag.Get("unit") != "" || find(Settings(), s.Name) == nil, "%s has a word for its value", s.Name)
		case reflect.TypeFor[int](), reflect.TypeFor[time.Duration](), reflect.TypeFor[Size]():
			assert.NotNil(t, lo, "%s has bounds", s.Name)
			assert.NotNil(t, hi, "%s has bounds", s.Name)
		}
	}
	for _, s := range Settings() {
		if s.elements() != nil {
			assert.NotEmpty(t, s.tag.Get("example"), s.Name)
			continue
		}
		_, err := s.value(s.Default)
		assert.NoError(t, err, s.Name)
	}
}

// Holds G73.
func TestPrecedence(t *testing.T) {
	g := given{
		file: "retry:\n  min: 1s\n  max: 20s\nlog.level: warn\n",
		env:  []string{"REJOIN_RETRY_MIN=2s", "REJOIN_RETRY_MAX=21s", "PATH=/bin"},
		args: []string{"--retry-min=3s"},
	}
	c, err := g.load(t)
	require.NoError(t, err)
	assert.Equal(t, Retry{Min: 3 * time.Second, Max: 21 * time.Second}, c.Retry)
	assert.Equal(t, "warn", c.Log.Level)
	assert.Equal(t, "--retry-min", c.Origin("retry.min"))
	assert.Equal(t, "REJOIN_RETRY_MAX", c.Origin("retry.max"))
	assert.Regexp(t, `rejoin\.yaml:4$`, c.Origin("log.level"))
	assert.Empty(t, c.Origin("listen"))
}

func TestALaterListReplacesAnEarlierOne(t *testing.T) {
	c, err := given{
		file: "cors.origins: ['https://file.example']\nchannels: [{match: a}, {match: b}]\n",
		env:  []string{"REJOIN_CHANNELS=[{match: c}]"},
		args: []string{"--cors-origins=https://one.example", "--cors-origins=https://two.example"},
	}.load(t)
	require.NoError(t, err)
	assert.Equal(t, []string{"https://one.example", "https://two.example"}, c.CORS.Origins)
	require.Len(t, c.Channels, 1)
	assert.Equal(t, "c", c.Channels[0].Match)
	assert.Equal(t, "REJOIN_CHANNELS", c.Origin("channels[0].match"))
	assert.Empty(t, c.Origin("channels[1].match"))
}

func TestFileNamedByTheEnvironment(t *testing.T) {
	path := writeFile(t, "log: {level: error}")
	c, err := given{env: []string{"REJOIN_CONFIG=" + path}}.load(t)
	require.NoError(t, err)
	assert.Equal(t, "error", c.Log.Level)

	c, err = given{env: []string{"REJOIN_CONFIG=/nowhere"}, file: "log: {level: warn}"}.load(t)
	require.NoError(t, err, "--config wins")
	assert.Equal(t, "warn", c.Log.Level)
}

func TestFilesWithoutSettings(t *testing.T) {
	for _, text := range []string{"\n", "# only a comment\n", "---\n", "redis:\nlog: {}\n"} {
		c, err := given{file: text}.load(t)
		require.NoError(t, err, "%q", text)
		c.origins = nil
		assert.Equal(t, Default(), *c, "%q", text)
	}
}

func TestSecretFromAFile(t *testing.T) {
	path := writeFile(t, "\n redis://:hunter2@db:6379 \n")
	c, err := given{env: []string{"REJOIN_REDIS_URL_FILE=" + path}, file: "redis.url: redis://other"}.load(t)
	require.NoError(t, err)
	assert.Equal(t, "redis://:hunter2@db:6379", c.Redis.URL)
	assert.Equal(t, "REJOIN_REDIS_URL_FILE", c.Origin("redis.url"))
}

func TestVariablesOfKubernetesAreNotOurs(t *testing.T) {
	_, err := given{env: []string{
		"REJOIN_SERVICE_HOST=10.0.0.1",
		"REJOIN_SERVICE_PORT=8080",
		"REJOIN_SERVICE_PORT_HTTP=8080",
		"REJOIN_PORT=tcp://10.0.0.1:8080",
		"REJOIN_PORT_8080_TCP=tcp://10.0.0.1:8080",
		"REJOIN_PORT_8080_TCP_PROTO=tcp",
		"REJOIN_PORT_8080_TCP_PORT=8080",
		"REJOIN_PORT_8080_TCP_ADDR=10.0.0.1",
		"REJOIN_ADMIN_SERVICE_HOST=10.0.0.2",
		"REJOIN_ADMIN_PORT=tcp://10.0.0.2:8081",
	}}.load(t)
	assert.NoError(t, err)

	_, err = given{env: []string{"REJOIN_ADMIN_PORT=8081"}}.load(t)
	assert.EqualError(t, err, "REJOIN_ADMIN_PORT: unknown setting")
	for _, s := range Settings() {
		assert.NotRegexp(t, orchestrated, s.Env+"=x")
	}
}

func TestRulesInheritWhatTheyLeaveOut(t *testing.T) {
	c, err := given{file: `
retention: {max_messages: 7, max_age: 1h}
limits.payload: 2MiB
channels:
  - match: quotes.**
    retention: &short
      max_age: 10s
    rewind: 1
    payload: 64KiB
  - {match: news.*, retention: *short}
  - match: "**"
`}.load(t)
	require.NoError(t, err)
	short := Retention{MaxMessages: 7, MaxAge: 10 * time.Second, ChannelTTL: 168 * time.Hour}
	assert.Equal(t, []Channel{
		{Match: "quotes.**", Retention: short, Rewind: 1, Payload: 64 * KiB},
		{Match: "news.*", Retention: short, Payload: 2 * MiB},
		{Match: "**", Retention: c.Retention, Payload: 2 * MiB},
	}, c.Channels)
	assert.Regexp(t, `:5$`, c.Origin("channels[0].match"))
	assert.Regexp(t, `:7$`, c.Origin("channels[0].retention.max_age"))
	assert.Equal(t, 2*MiB, c.LargestPayload())
}

func TestFaultNamesSettingAndSource(t *testing.T) {
	c, err := given{env: []string{`REJOIN_CHANNELS=[{match: "a.**.b"}]`}}.load(t)
	require.NoError(t, err)
	assert.EqualError(t, c.Fault("channels[0].match", "** stands\nlast"), "REJOIN_CHANNELS: channels[0].match: ** stands last")
	assert.EqualError(t, c.Fault("listen", "taken"), "listen: taken")
}
