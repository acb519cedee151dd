package redislog

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

// isReply reports whether Redis itself answered with an error.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// passing are the first words of errors by which a server as a whole refuses
// for a while; nothing was done.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	"NOREPLICAS", "MISCONF", "UNBLOCKED", "UNKILLABLE", "ERR max number of clients",
}

func hasPrefix(err error, prefixes ...string) bool {
	for _, p := range prefixes {
		if redis.HasErrorPrefix(err, p) || strings.HasPrefix(err.Error(), p) {
			return true
		}
	}
	return false
}

// kind says what an error means. wrote: the call was a script that writes, so a
// lost answer leaves the outcome unknown.
func kind(err error, wrote bool) error {
	if isReply(err) {
		switch {
		case hasPrefix(err, "OOM"):
			return stream.ErrFull
		case hasPrefix(err, passing...):
			return stream.ErrUnavailable
		}
		return stream.ErrBroken
	}
	if !wrote {
		return stream.ErrUnavailable
	}
	if le, ok := errors.AsType[*linkError](err); ok {
		if le.sent {
			return stream.ErrUnknownOutcome
		}
		return stream.ErrUnavailable
	}
	// What go-redis says without having touched a connection.
	for _, e := range []error{context.Canceled, context.DeadlineExceeded, redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted} {
		if errors.Is(err, e) {
			return stream.ErrUnavailable
		}
	}
	return stream.ErrUnknownOutcome
}

// hints tell an operator what to do, by the first word of Redis' error.
var hints = []struct{ prefix, hint string }{
	{"WRONGTYPE", "a key of this name belongs to something else: rename or delete it, or set another redis.prefix"},
	{"NOPERM", "give this user the commands and the keys of redis.prefix (ACL)"},
	{"NOAUTH", "redis.url needs a user and password"},
	{"WRONGPASS", "the user or password in redis.url is wrong"},
	{"OOM", "raise maxmemory or keep less (retention)"},
	{"MISCONF", "Redis cannot save its snapshot and refuses writes: look into its log"},
	{"ERR unknown command", "Redis 7.0 or later is needed"},
}

// failure makes an error of the contract of one that go-redis returned.
func failure(op, channel string, err error, wrote bool) error {
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return e
	}
	e := &stream.Error{Op: op, Channel: channel, Kind: kind(err, wrote), Err: err}
	if isReply(err) {
		for _, h := range hints {
			if hasPrefix(err, h.prefix) {
				e.Hint = h.hint
				break
			}
		}
	}
	return e
}
