// Package config reads Rejoin's settings into one typed, checked struct.
//
// A setting has one name everywhere: redis.url in the YAML file is
// REJOIN_REDIS_URL in the environment and --redis-url on the command line.
// Later sources win: defaults, then the file, then the environment, then flags.
// Whatever is not understood stops the start with one line that names it
// ([Error]); nothing is ever ignored.
//
// Files, one idea each:
//
//	config.go   the settings: names, defaults, limits, help
//	setting.go  Setting, found by walking the struct
//	value.go    a text becomes a value, and back
//	check.go    what a value must be, alone and beside others
//	list.go     lists whose elements have settings: channels, auth.keys
//	load.go     the sources, in their order
//	yaml.go     the file, with line numbers
//	env.go      the environment and secrets in files
//	flags.go    the command line
//	unknown.go  unknown and not yet built names, the nearest known one
//	print.go    the effective settings as YAML, secrets masked
package config

import (
	"strings"
	"time"
)

// Config holds every setting, checked. The tags are the settings' reference:
// koanf is the name, min and max are inclusive, oneof lists the words allowed,
// check names a function of check.go, help says what the setting is for, and
// unit what stands for a text in the help of flags.
type Config struct {
	Listen    string    `koanf:"listen" check:"address" unit:"address" help:"where clients connect, host:port"`
	Admin     Admin     `koanf:"admin"`
	Redis     Redis     `koanf:"redis"`
	Memory    Memory    `koanf:"memory"`
	Publish   Publish   `koanf:"publish"`
	Retention Retention `koanf:"retention"`
	Retry     Retry     `koanf:"retry"`
	Drain     Drain     `koanf:"drain"`
	Limits    Limits    `koanf:"limits"`
	CORS      CORS      `koanf:"cors"`
	Auth      Auth      `koanf:"auth"`
	TLS       TLS       `koanf:"tls"`
	Log       Log       `koanf:"log"`
	// Channels are rules for kinds of channel; the first whose Match covers a
	// name wins. What a rule does not set has been filled in from the settings
	// above.
	Channels []Channel `koanf:"channels" example:"[{match: \"quotes.**\", rewind: 1}]" help:"rules for kinds of channel, a YAML list; the first match wins"`

	origins map[string]string // setting -> where its value came from; defaults are absent
}

// Admin is the listener for operators: health, metrics, profiles.
type Admin struct {
	Listen string `koanf:"listen" check:"address" unit:"address" help:"where health, metrics and profiles are served, host:port"`
}

// Redis is the log shared by several servers. With an empty URL the log is in
// this process' memory.
type Redis struct {
	URL        string        `koanf:"url" secret:"url" unit:"url" help:"the Redis that keeps the log; empty: in memory, lost at exit"`
	Prefix     string        `koanf:"prefix" check:"prefix" unit:"text" help:"what the names of all keys begin with"`
	Partitions int           `koanf:"partitions" min:"1" max:"1024" help:"what channels are spread over; fixed at the first start"`
	Timeout    time.Duration `koanf:"timeout" min:"10ms" max:"1m" help:"longest wait for a Redis that does not answer"`
}

// Memory bounds the in-memory log; it means nothing with a Redis.
type Memory struct {
	Bytes Size `koanf:"bytes" min:"1MiB" max:"1024GiB" help:"most that the in-memory log holds, all channels together"`
}

// Publish is about taking messages in.
type Publish struct {
	IdempotencyTTL time.Duration `koanf:"idempotency_ttl" min:"1s" max:"168h" help:"how long an Idempotency-Key is remembered"`
}

// Retention says how much of a channel is served. Both limits hold exactly.
type Retention struct {
	MaxMessages int           `koanf:"max_messages" min:"1" max:"10000000" help:"messages of a channel that can be read again"`
	MaxAge      time.Duration `koanf:"max_age" min:"1s" max:"87600h" help:"how long they can be read again"`
	ChannelTTL  time.Duration `koanf:"channel_ttl" min:"1s" max:"87600h" help:"how long a silent channel's counter is remembered"`
}

// Retry is the range of the time to wait that clients are told; each connection
// is told a random one, so that they do not come back all at once.
type Retry struct {
	Min time.Duration `koanf:"min" min:"1ms" max:"1h" help:"shortest wait before a client reconnects"`
	Max time.Duration `koanf:"max" min:"1ms" max:"1h" help:"longest wait before a client reconnects"`
}

// Drain is about stopping.
type Drain struct {
	Window time.Duration `koanf:"window" min:"1ms" max:"1h" help:"time over which clients are sent away at a stop"`
}

// Limits bound what one client may ask for.
type Limits struct {
	Payload               Size          `koanf:"payload" min:"1B" max:"64MiB" help:"largest message"`
	Connections           int           `koanf:"connections" min:"0" max:"10000000" help:"readers at a time; 0: what file descriptors allow"`
	ConnectionAge         time.Duration `koanf:"connection_age" min:"0s" max:"8760h" help:"age at which a reader is told to move, ±20%; 0s: never"`
	ChannelsPerConnection int           `koanf:"channels_per_connection" min:"1" max:"10000" help:"channels one connection may read"`
	HeaderBytes           Size          `koanf:"header_bytes" min:"4KiB" max:"16MiB" help:"largest request head, the query included"`
}

// CORS says which web pages of other origins may use the API.
type CORS struct {
	Origins []string `koanf:"origins" check:"origins" help:"origins that may call from a browser, or * for all"`
}

// Auth is about who may read and publish.
type Auth struct {
	Insecure  bool      `koanf:"insecure" help:"let other machines reach a listener that asks nobody who they are"`
	Keys      []Key     `koanf:"keys" example:"[{name: app, sha256: 0a1b…, publish: [news.*]}]" help:"API keys, a YAML list"`
	JWT       JWT       `koanf:"jwt"`
	Anonymous Anonymous `koanf:"anonymous"`
}

// Set reports whether anything says who may do what. If nothing does, everyone
// may do everything.
func (a *Auth) Set() bool {
	return len(a.Keys) > 0 || a.JWT.Set() || len(a.Anonymous.Read) > 0 || len(a.Anonymous.Publish) > 0
}

// Key is an API key, known by its hash alone. Its lists are patterns of channels.
type Key struct {
	Name    string   `koanf:"name" check:"name" help:"whose key it is"`
	SHA256  string   `koanf:"sha256" check:"sha256" help:"SHA-256 of the key, 64 hex digits"`
	Publish []string `koanf:"publish" help:"patterns of the channels it may publish to"`
	Read    []string `koanf:"read" help:"patterns of the channels it may read"`
	Admin   bool     `koanf:"admin" help:"it may delete and list channels, and disconnect readers"`
}

// JWT says which JSON Web Tokens are good. At most one of the first four is set.
type JWT struct {
	Secret        string   `koanf:"secret" secret:"true" unit:"text" help:"the secret that tokens are signed with, by HS256"`
	PublicKeyFile string   `koanf:"public_key_file" unit:"file" help:"the public key that verifies tokens, PEM"`
	JWKSFile      string   `koanf:"jwks_file" unit:"file" help:"a set of such keys (JWKS); read again when it changes"`
	JWKSURL       string   `koanf:"jwks_url" check:"url" mask:"url" unit:"url" help:"where such a set is; got every five minutes"`
	Algorithms    []string `koanf:"algorithms" oneof:"HS256 RS256 ES256 EdDSA" help:"those taken; none: all that fit the keys"`
	Issuer        string   `koanf:"issuer" unit:"text" help:"what a token's iss must be"`
	Audience      string   `koanf:"audience" unit:"text" help:"what a token's aud must hold"`
}

// Set reports whether there is something to verify tokens with.
func (j *JWT) Set() bool {
	return j.Secret != "" || j.PublicKeyFile != "" || j.JWKSFile != "" || j.JWKSURL != ""
}

// Anonymous is what anybody may do, with a token or without.
type Anonymous struct {
	Read    []string `koanf:"read" help:"patterns of the channels that anybody may read"`
	Publish []string `koanf:"publish" help:"patterns of the channels that anybody may publish to"`
}

// TLS is the certificate of the clients' listener. With none it speaks plain
// HTTP.
type TLS struct {
	Cert string `koanf:"cert" unit:"file" help:"certificate and its chain, PEM; read again when it changes"`
	Key  string `koanf:"key" unit:"file" help:"its private key, PEM"`
}

// Log is about what this process writes to standard error.
type Log struct {
	Level  string `koanf:"level" oneof:"debug info warn error" unit:"word" help:"debug, info, warn or error"`
	Format string `koanf:"format" oneof:"auto console json" unit:"word" help:"console, json, or auto: console on a terminal"`
}

// Channel is one rule for the channels that Match covers.
type Channel struct {
	Match     string    `koanf:"match" check:"match" help:"a pattern: * is one part between dots, ** the rest"`
	Retention Retention `koanf:"retention"`
	Rewind    int       `koanf:"rewind" min:"0" max:"1000000" help:"newest messages sent to a reader without a position"`
	Payload   Size      `koanf:"payload" min:"1B" max:"64MiB" help:"largest message"`
}

// Default is what holds when nothing is set.
func Default() Config {
	return Config{
		Listen:    "127.0.0.1:8080",
		Admin:     Admin{Listen: "127.0.0.1:8081"},
		Redis:     Redis{Prefix: "rejoin", Partitions: 32, Timeout: 2 * time.Second},
		Memory:    Memory{Bytes: 256 * MiB},
		Publish:   Publish{IdempotencyTTL: 5 * time.Minute},
		Retention: Retention{MaxMessages: 1000, MaxAge: 24 * time.Hour, ChannelTTL: 168 * time.Hour},
		Retry:     Retry{Min: 500 * time.Millisecond, Max: 3 * time.Second},
		Drain:     Drain{Window: 10 * time.Second},
		Limits:    Limits{Payload: 1 * MiB, ChannelsPerConnection: 100, HeaderBytes: 64 * KiB},
		Log:       Log{Level: "info", Format: "auto"},
	}
}

// Origin says where a setting's value came from: "rejoin.yaml:4",
// "REJOIN_REDIS_URL", "--redis-url"; "" for a default.
func (c *Config) Origin(setting string) string { return c.origins[setting] }

// Fault is the error to report when a setting that config could not judge
// alone turns out bad: it names the setting and its source like config's own.
// The problem must not hold the value of a secret.
func (c *Config) Fault(setting, problem string) error {
	source := c.origins[setting]
	if i := strings.LastIndexByte(setting, '.'); source == "" && i >= 0 {
		source = c.origins[setting[:i]] // of an element that leaves it out
	}
	return &Error{Source: source, Setting: setting, Problem: problem}
}

// Error is one setting that stops the start.
type Error struct {
	Source  string // as [Config.Origin]; "" for a default
	Setting string // "" if it is about the whole source
	Problem string // and what to do

	line int // in the file, until the source is known
}

// Error is one line: source, setting, problem.
func (e *Error) Error() string {
	s := e.Problem
	if e.Setting != "" {
		s = e.Setting + ": " + s
	}
	if e.Source != "" {
		s = e.Source + ": " + s
	}
	return oneLine(s)
}
