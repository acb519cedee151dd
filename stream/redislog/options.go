package redislog

import (
	"errors"
	"fmt"
	"time"

	"rejoin/stream"
)

// Options of a log. Zero fields mean the default named.
type Options struct {
	// URL is where Redis is, in one setting; see [CheckURL]. Required.
	URL string
	// Prefix begins every key; "rejoin".
	Prefix string
	// Partitions is how many the channels are spread over, 32. It is stored in
	// Redis by whoever comes first and must be the same ever after.
	Partitions int
	// Timeout bounds every call but Wait in all: waiting for a connection,
	// connecting, writing, reading; 2 seconds.
	Timeout time.Duration
	// IdempotencyTTL is how long an idempotency key is remembered; 5 minutes.
	IdempotencyTTL time.Duration
	// Retention of a channel, asked for at each append and read; zero fields
	// mean [stream.DefaultRetention]'s. Nil: that for all.
	Retention func(channel string) stream.Retention
	// Meter is told of round trips and errors; nil for nobody.
	Meter Meter
	// Log is told what an operator should know, rarely; nil for nobody. It may
	// be called from several goroutines.
	Log func(message string, err error)

	script string // replaces common.lua and append.lua, for the mutant test
}

// Meter hears what calls to Redis cost. Its methods are called from several
// goroutines and must be quick.
type Meter interface {
	// RoundTrip: Redis answered this operation ("append", "read", "delete", "list",
	// "bounds", "look", "audit") within d.
	RoundTrip(op string, d time.Duration)
	// Error: this operation failed; kind is one of the stream.Err… values.
	Error(op string, kind error)
}

type noMeter struct{}

func (noMeter) RoundTrip(string, time.Duration) {}
func (noMeter) Error(string, error)             {}

const maxPartitions = 1024

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.URL == "" {
		return o, errors.New("redislog: no URL: want one such as redis://127.0.0.1:6379")
	}
	if o.Prefix == "" {
		o.Prefix = "rejoin"
	}
	for _, c := range []byte(o.Prefix) {
		if c <= ' ' || c == '{' || c == '}' || c > '~' {
			return o, fmt.Errorf("redislog: prefix %q: want printable ASCII without spaces and braces", o.Prefix)
		}
	}
	if o.Partitions == 0 {
		o.Partitions = 32
	}
	if o.Partitions < 1 || o.Partitions > maxPartitions {
		return o, fmt.Errorf("redislog: %d partitions: want 1 to %d", o.Partitions, maxPartitions)
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.IdempotencyTTL <= 0 {
		o.IdempotencyTTL = 5 * time.Minute
	}
	if o.Retention == nil {
		o.Retention = func(string) stream.Retention { return stream.DefaultRetention }
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	if o.Log == nil {
		o.Log = func(string, error) {}
	}
	return o, nil
}

// retention of a channel, zero fields filled in.
func (o *Options) retention(channel string) stream.Retention {
	r, d := o.Retention(channel), stream.DefaultRetention
	if r.MaxMessages <= 0 {
		r.MaxMessages = d.MaxMessages
	}
	if r.MaxAge <= 0 {
		r.MaxAge = d.MaxAge
	}
	if r.ChannelTTL <= 0 {
		r.ChannelTTL = d.ChannelTTL
	}
	return r
}
