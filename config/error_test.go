package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every way to get a setting wrong: one line that names it, where it is, and
// what to do.
// Holds G74.
func TestErrors(t *testing.T) {
	env := func(kv ...string) given { return given{env: kv} }
	file := func(text string) given { return given{file: text} }
	args := func(args ...string) given { return given{args: args} }
	for _, c := range []struct {
		given given
		want  string
	}{
		// Unknown names.
		{file("redis:\n  uri: x\n"), "FILE:2: redis.uri: unknown setting: did you mean redis.url?"},
		{file("retention:\n  max_mesages: 5\n"), "FILE:2: retention.max_mesages: unknown setting: did you mean retention.max_messages?"},
		{file("max_messages: 5\n"), "FILE:1: max_messages: unknown setting: did you mean retention.max_messages?"},
		{file("Listen: ':80'\n"), "FILE:1: Listen: unknown setting: did you mean listen?"},
		{file("listen: {port: 80}\n"), "FILE:1: listen.port: unknown setting"},
		{file("redis: {url_file: x}\n"), "FILE:1: redis.url_file: unknown setting"},
		{file("colour: blue\n"), "FILE:1: colour: unknown setting"},
		{env("REJOIN_REDIS_URI=x"), "REJOIN_REDIS_URI: unknown setting: did you mean REJOIN_REDIS_URL?"},
		{env("REJOIN_LIMITS_HEADERBYTES=1"), "REJOIN_LIMITS_HEADERBYTES: unknown setting: did you mean REJOIN_LIMITS_HEADER_BYTES?"},
		{env("REJOIN_listen=x"), "REJOIN_listen: unknown setting: did you mean REJOIN_LISTEN?"},
		{env("REJOIN_Z=1", "REJOIN_COLOUR_OF_THE_SKY=1"), "REJOIN_COLOUR_OF_THE_SKY: unknown setting"},

		// Named by the contract, not built.
		{file("channels:\n  - match: a\n    conflate: 1s\n"), "FILE:3: channels[0].conflate: is not built yet: take it out"},
		{file("conflate: 1s\n"), "FILE:1: conflate: is not built yet: take it out"},

		// Values of the wrong kind.
		{file("retry.min: soon\n"), `FILE:1: retry.min: "soon" is not a duration: write such as 500ms, 2s, 5m or 24h`},
		{file("retry.min: 500\n"), `FILE:1: retry.min: "500" is not a duration: write such as 500ms, 2s, 5m or 24h`},
		{file("redis: {partitions: many}\n"), `FILE:1: redis.partitions: "many" is not a whole number`},
		{file("redis: {partitions: 1.5}\n"), `FILE:1: redis.partitions: "1.5" is not a whole number`},
		{file("auth.insecure: maybe\n"), `FILE:1: auth.insecure: "maybe" is neither true nor false`},
		{file("limits.payload: 64k\n"), `FILE:1: limits.payload: "64k" is not a size: write plain bytes, or such as 64KiB or 1MB`},
		{file("limits.payload: -1\n"), `FILE:1: limits.payload: "-1" is not a size: write plain bytes, or such as 64KiB or 1MB`},
		{file("limits.payload: 99999999999GiB\n"), `FILE:1: limits.payload: "99999999999GiB" is not a size: write plain bytes, or such as 64KiB or 1MB`},
		{file("listen: [a, b]\n"), "FILE:1: listen: want one value"},
		{file("listen:\n"), `FILE:1: listen: has no value: leave it out for the default, or write "" for an empty text`},
		{file("redis: here\n"), "FILE:1: redis: is a section: its settings stand below it, each as name: value"},
		{file("cors: {origins: [{a: b}]}\n"), "FILE:1: cors.origins: want a list of texts"},
		{env("REJOIN_RETRY_MIN="), "REJOIN_RETRY_MIN: retry.min: is empty: give a value, or unset it for the default"},
		{args("--drain-window=x"), `--drain-window: drain.window: "x" is not a duration: write such as 500ms, 2s, 5m or 24h`},
		{env("REJOIN_REDIS_URL=redis://:pw\x01@h"), "REJOIN_REDIS_URL: redis.url: holds a line break or another control character"},

		// Values out of bounds.
		{args("--redis-partitions=0"), "--redis-partitions: redis.partitions: 0 is out of bounds: want 1 to 1024"},
		{args("--redis-partitions=1025"), "--redis-partitions: redis.partitions: 1025 is out of bounds: want 1 to 1024"},
		{args("--redis-timeout=0s"), "--redis-timeout: redis.timeout: 0s is out of bounds: want 10ms to 1m"},
		{args("--drain-window=-1s"), "--drain-window: drain.window: -1s is out of bounds: want 1ms to 1h"},
		{args("--limits-connections=-1"), "--limits-connections: limits.connections: -1 is out of bounds: want 0 to 10000000"},
		{args("--limits-connection-age=-1s"), "--limits-connection-age: limits.connection_age: -1s is out of bounds: want 0s to 8760h"},
		{args("--limits-payload=0"), "--limits-payload: limits.payload: 0B is out of bounds: want 1B to 64MiB"},
		{args("--retention-max-messages=0"), "--retention-max-messages: retention.max_messages: 0 is out of bounds: want 1 to 10000000"},
		{args("--log-level=loud"), `--log-level: log.level: "loud" is not one of debug, info, warn, error`},
		{args("--log-format=xml"), `--log-format: log.format: "xml" is not one of auto, console, json`},
		{args("--redis-prefix={a}"), `--redis-prefix: redis.prefix: "{a}" will not do: want 1-64 characters of A-Z a-z 0-9 _ . : -`},
		{env("REJOIN_REDIS_PREFIX="), `REJOIN_REDIS_PREFIX: redis.prefix: "" will not do: want 1-64 characters of A-Z a-z 0-9 _ . : -`},
		{args("--listen=8080"), `--listen: listen: "8080" is not an address: write host:port, such as 127.0.0.1:8080`},
		{args("--listen=localhost:http"), `--listen: listen: "localhost:http" has no port number: want 0 to 65535, 0 for any free one`},
		{args("--admin-listen=localhost:65536"), `--admin-listen: admin.listen: "localhost:65536" has no port number: want 0 to 65535, 0 for any free one`},
		{args("--cors-origins=https://a.example/"), `--cors-origins: cors.origins: "https://a.example/" is not an origin: write scheme://host or scheme://host:port without a path, or * for all`},
		{args("--cors-origins=*.example"), `--cors-origins: cors.origins: "*.example" is not an origin: write scheme://host or scheme://host:port without a path, or * for all`},
		{args("--cors-origins=https://A.example"), `--cors-origins: cors.origins: "https://A.example": browsers send origins in lower case: write https://a.example`},

		// Rules.
		{file("channels: {match: a}\n"), "FILE:1: channels.match: unknown setting"},
		{file("channels: a\n"), `FILE:1: channels: want a list, such as [{match: "quotes.**", rewind: 1}]`},
		{file("channels:\n  - a\n"), "FILE:2: channels[0]: want settings, each as name: value"},
		{file("channels:\n  - match: a\n  - rewind: 1\n"), "FILE:3: channels[1].match: is missing: say which channels the rule is for, such as quotes.**"},
		{file("channels:\n  - match: a\n    rewindd: 1\n"), "FILE:3: channels[0].rewindd: unknown setting: did you mean rewind?"},
		{file("channels:\n  - match: a\n    rewind: -1\n"), "FILE:3: channels[0].rewind: -1 is out of bounds: want 0 to 1000000"},
		{file("channels:\n  - match: a\n    retention:\n      max_age: 1d\n"), `FILE:4: channels[0].retention.max_age: "1d" is not a duration: write such as 500ms, 2s, 5m or 24h`},
		{file("channels:\n  - match: a\n    retention: 5\n"), "FILE:3: channels[0].retention: is a section: its settings stand below it, each as name: value"},
		{file("channels:\n  - match: '**'\n  - match: a\n"), `FILE:3: channels[1].match: "a" is never reached: channels[0] is "**"`},
		{file("channels:\n  - match: a\n  - match: a\n"), `FILE:3: channels[1].match: "a" is never reached: channels[0] is "a"`},
		{env("REJOIN_CHANNELS=[{match: a, rewind: x}]"), `REJOIN_CHANNELS: channels[0].rewind: "x" is not a whole number`},
		{env("REJOIN_CHANNELS=[{"), "REJOIN_CHANNELS: channels: line 1: did not find expected node content"},

		// Who may.
		{file("auth:\n  keys: {name: a}\n"), "FILE:2: auth.keys.name: unknown setting"},
		{file("auth:\n  keys: [{sha256: " + someHash + ", read: [a]}]\n"), "FILE:2: auth.keys[0].name: is missing: say whose key it is"},
		{file("auth:\n  keys:\n    - name: a\n      read: [a]\n"), `FILE:3: auth.keys[0].sha256: is missing: printf %s "$KEY" | sha256sum prints it`},
		{file("auth.keys: [{name: a, sha256: hunter2, read: [a]}]\n"), `FILE:1: auth.keys[0].sha256: want the 64 hex digits that printf %s "$KEY" | sha256sum prints, not the key itself`},
		{file("auth.keys: [{name: a, sha256: " + someHash + "}]\n"), "FILE:1: auth.keys[0].read: this key allows nothing: give it read, publish or admin"},
		{file("auth.keys: [{name: a, sha256: " + someHash + ", reads: [a]}]\n"), "FILE:1: auth.keys[0].reads: unknown setting: did you mean read?"},
		{file("auth.keys:\n- {name: a, sha256: " + someHash + ", read: [a]}\n- {name: b, sha256: " + strings.ToUpper(someHash) + ", read: [a]}\n"), "FILE:3: auth.keys[1].sha256: auth.keys[0] is the same key"},
		{file("auth.keys:\n- {name: a, sha256: " + someHash + ", read: [a]}\n- {name: a, sha256: " + strings.Repeat("0", 64) + ", admin: true}\n"), `FILE:3: auth.keys[1].name: "a" is the name of auth.keys[0] too`},
		{args("--auth-jwt-secret=a", "--auth-jwt-jwks-url=https://id.example"), "--auth-jwt-jwks-url: auth.jwt.jwks_url: auth.jwt.secret is set too: choose one"},
		{args("--auth-jwt-audience=a"), "--auth-jwt-audience: auth.jwt.audience: there is nothing to verify tokens with: set one of auth.jwt.secret, public_key_file, jwks_file and jwks_url"},
		{args("--auth-jwt-algorithms=none"), `--auth-jwt-algorithms: auth.jwt.algorithms: "none" is not one of HS256, RS256, ES256, EdDSA`},
		{args("--auth-jwt-algorithms=HS256,RS256", "--auth-jwt-secret=a"), "--auth-jwt-algorithms: auth.jwt.algorithms: RS256 is not for auth.jwt.secret: HS256 is for a secret, the others are for public keys"},
		{args("--auth-jwt-algorithms=HS256", "--auth-jwt-jwks-file=a"), "--auth-jwt-algorithms: auth.jwt.algorithms: HS256 is not for auth.jwt.jwks_file: HS256 is for a secret, the others are for public keys"},
		{args("--auth-jwt-jwks-url=ftp://u:hunter2@h/"), "--auth-jwt-jwks-url: auth.jwt.jwks_url: want an address that begins with https://"},
		{env("REJOIN_AUTH_JWT_SECRET_FILE=/dev/null"), "REJOIN_AUTH_JWT_SECRET_FILE: auth.jwt.secret: /dev/null is empty"},
		{args("--tls-cert=a"), "--tls-cert: tls.key: belongs to tls.cert: set both or neither"},
		{args("--tls-key=a"), "--tls-key: tls.key: belongs to tls.cert: set both or neither"},

		// Settings beside each other.
		{args("--retry-min=5s"), "--retry-min: retry.min: 5s is above retry.max, 3s"},
		{env("REJOIN_RETRY_MAX=100ms"), "REJOIN_RETRY_MAX: retry.min: 500ms is above retry.max, 100ms"},
		{args("--listen=127.0.0.1:8081"), "--listen: admin.listen: is the same address as listen, 127.0.0.1:8081: choose another port"},
		{args("--memory-bytes=1MiB", "--limits-payload=2MiB"), "--memory-bytes: memory.bytes: 1MiB does not hold one message of the largest size allowed, 2MiB"},
		{args("--listen=:8080"), "--listen: listen: :8080 can be reached from other machines, and nothing says who may read and publish: set auth.keys, auth.jwt or auth.anonymous, or listen on 127.0.0.1, or set auth.insecure: true if everyone there may do everything"},
		{env("REJOIN_ADMIN_LISTEN=0.0.0.0:1"), "REJOIN_ADMIN_LISTEN: admin.listen: 0.0.0.0:1 can be reached from other machines, and it asks nobody who they are: listen on 127.0.0.1, or set auth.insecure: true if everyone there may see metrics and profiles"},

		// Files.
		{file("listen: a\nlisten: b\n"), "FILE:2: listen: given twice, first in line 1"},
		{file("redis:\n  url: a\nredis.url: b\n"), "FILE:3: redis.url: given twice, first in line 2"},
		{file("- a\n"), "FILE:1: want settings, each as name: value"},
		{file("a: [\n"), "FILE: line 1: did not find expected node content"},
		{file("listen: a:1\n---\nlisten: b:1\n"), "FILE:2: a second YAML document (---): write all settings in one"},
		{file(aliases(12)), "FILE:1: d.d4.c8.b4.a4: more than 10000 settings"},
		{file("redis: &r\n  x: *r\n"), "FILE:2: redis.x.x.x.x.x.x: unknown setting"},
		{args("--config=/no/such/file"), "settings file: open /no/such/file: no such file or directory"},
		{env("REJOIN_REDIS_URL_FILE=/no/such/file"), "REJOIN_REDIS_URL_FILE: redis.url: open /no/such/file: no such file or directory"},
		{env("REJOIN_REDIS_URL_FILE=/dev/null"), "REJOIN_REDIS_URL_FILE: redis.url: /dev/null is empty"},
		{env("REJOIN_REDIS_URL_FILE=/dev/zero"), "REJOIN_REDIS_URL_FILE: redis.url: /dev/zero is larger than 64KiB: it is not a secret"},
		{env("REJOIN_REDIS_URL_FILE=x", "REJOIN_REDIS_URL=y"), "REJOIN_REDIS_URL_FILE: redis.url: REJOIN_REDIS_URL is set too: choose one"},
	} {
		_, err := c.given.load(t)
		if !assert.Error(t, err, "wanted %s", c.want) {
			continue
		}
		fault, ok := errors.AsType[*Error](err)
		require.True(t, ok, "%T %v", err, err)
		got := fault.Error()
		if i := strings.Index(got, "rejoin.yaml"); i >= 0 {
			got = "FILE" + got[i+len("rejoin.yaml"):]
		}
		assert.Equal(t, c.want, got)
		assert.NotContains(t, got, "\n")
	}
}

// aliases is a file of width⁶ settings in little text.
func aliases(width int) string {
	var b strings.Builder
	for level := range 6 {
		fmt.Fprintf(&b, "%c: &%c {", 'a'+level, 'a'+level)
		for i := range width {
			value := "1"
			if level > 0 {
				value = fmt.Sprintf("*%c", 'a'+level-1)
			}
			fmt.Fprintf(&b, "%c%d: %s, ", 'a'+level, i, value)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// Holds G74.
func TestFlagErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"--redis-uri=x":        "--redis-uri: unknown flag: did you mean --redis-url?",
		"--retention-max-mess": "--retention-max-mess: unknown flag: did you mean --retention-max-messages?",
		"--colour-of-the-sky":  "--colour-of-the-sky: unknown flag",
		"--listen":             "flag needs an argument: --listen",
		"-x":                   "unknown shorthand flag: 'x' in -x",
	} {
		flags := pflag.NewFlagSet("rejoin", pflag.ContinueOnError)
		AddFlags(flags)
		assert.EqualError(t, FlagError(flags, flags.Parse([]string{arg})), want)
	}
}

// Holds G75.
func TestAddressesBeyondThisMachine(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.8.8:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false, "nonsense": false,
	} {
		assert.Equal(t, want, Loopback(address), address)
	}
	c, err := given{args: []string{"--listen=0.0.0.0:80", "--auth-insecure"}}.load(t)
	require.NoError(t, err)
	assert.True(t, c.Auth.Insecure)
	for _, auth := range []string{
		"--auth-keys=[{name: a, sha256: " + someHash + ", read: [a]}]", "--auth-jwt-secret=a", "--auth-anonymous-read=**", "--auth-anonymous-publish=a",
	} {
		_, err = given{args: []string{"--listen=0.0.0.0:80", auth}}.load(t)
		assert.NoError(t, err, "who may is said: %s", auth)
		_, err = given{args: []string{"--admin-listen=0.0.0.0:80", auth}}.load(t)
		assert.Error(t, err, "the admin listener asks nobody even so")
	}
}

// Whatever is in a file, an error is one line of ours and nothing panics.
// Holds G74.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"", "redis: {url: redis://h}\n", "auth: {keys: [{name: a, sha256: b, read: [c]}], jwt: {secret: d}}\n", "channels: [{match: a, retention: {max_age: 1s}}]\n",
		"a: &a [*a]\n", "? {a: b}\n: c\n", "<<: {listen: x}\n", "- 1\n---\n", "!!binary x: y\n", "listen: !!int x\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		node, fault := parseYAML([]byte(text))
		if fault == nil && node != nil {
			l := &loader{lists: map[string][]element{}, origins: map[string]string{}}
			var leaves []leaf
			leaves, fault = flatten(node)
			for _, leaf := range leaves {
				if fault != nil {
					break
				}
				var v any
				if v, fault = leaf.value(Settings()); v != nil {
					l.keep(leaf.name, v, "file", leaf.node.Line)
				}
			}
			c := Default()
			if err := c.resolve(l.lists); err != nil {
				_ = err.(*Error)
			}
		}
		if fault != nil && (strings.ContainsFunc(fault.Error(), unicode.IsControl) || len(fault.Error()) > 510) {
			t.Errorf("not one line: %q", fault.Error())
		}
	})
}
