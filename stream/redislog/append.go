package redislog

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

var (
	//go:embed common.lua
	commonLua string
	//go:embed append.lua
	appendLua string
	//go:embed delete.lua
	deleteLua string
)

// Append implements [stream.Log]. A lost answer is never tried again here: the
// message might come twice.
func (l *Log) Append(ctx context.Context, m stream.Message) (stream.Appended, error) {
	m = alone(m)
	var a stream.Appended
	part := l.Part(m.Channel)
	err := l.call(ctx, "append", m.Channel, part, true, func(ctx context.Context, c *redis.Client) (err error) {
		passed := l.known.get(m.Channel).last
		a, err = l.appended(m, passed, run(ctx, c, l.appendScript, l.appendKeys(m), l.appendArgs(m, passed)))
		return err
	})
	if err != nil {
		return stream.Appended{}, err
	}
	return a, nil
}

// alone is the message with nothing but its channel, if it is only an end.
func alone(m stream.Message) stream.Message {
	if m.End == stream.EndAlone {
		return stream.Message{Channel: m.Channel, End: m.End}
	}
	return m
}

// appended reads what the script answered; passed is the known id it was told.
func (l *Log) appended(m stream.Message, passed stream.ID, cmd *redis.Cmd) (a stream.Appended, err error) {
	reply, err := cmd.StringSlice()
	if err != nil {
		return a, err
	}
	if len(reply) != 2 {
		return a, fmt.Errorf("append script: a reply of %d elements", len(reply))
	}
	if reply[0] == "conflict" {
		return a, &stream.Error{Op: "append", Channel: m.Channel, Kind: stream.ErrConflict}
	}
	id, err := stream.ParseID(reply[1])
	if err != nil {
		return a, fmt.Errorf("append script: answered id %q", reply[1])
	}
	switch reply[0] {
	case "new":
		l.known.answered(m.Channel, passed, id, len(m.Payload)+len(m.Event)+len(m.Key))
		return stream.Appended{ID: id}, nil
	case "ended":
		l.known.heard(m.Channel, id, 0)
		if m.End != stream.EndAlone {
			return a, &stream.Error{Op: "append", Channel: m.Channel, Kind: stream.ErrEnded}
		}
	default: // "old"
		l.known.heard(m.Channel, id, 0)
	}
	return stream.Appended{ID: id, Replayed: true}, nil
}

func (l *Log) appendKeys(m stream.Message) []string {
	p := l.keys.partition(m.Channel)
	keys := []string{l.keys.stream(m.Channel), l.keys.small(m.Channel), l.keys.journal(p), l.keys.journalEnd(p)}
	if m.IdempotencyKey != "" {
		keys = append(keys, l.keys.idempotency(m.Channel, m.IdempotencyKey))
	}
	return keys
}

func (l *Log) appendArgs(m stream.Message, known stream.ID) []any {
	r := l.opts.retention(m.Channel)
	return []any{
		m.Channel, m.Payload, m.Event, m.Key, messageHash(m),
		known.MS, known.N,
		r.MaxMessages, max(1, r.MaxAge.Milliseconds()),
		streamTTL(r).Milliseconds(), smallTTL(r).Milliseconds(), max(1, l.opts.IdempotencyTTL.Milliseconds()),
		l.clock.Load(), ends[m.End],
	}
}

// ends are the values of an entry's field end; an entry that is no end has none.
var ends = [...]string{stream.NotEnd: "", stream.EndAlone: "alone", stream.EndMessage: "message"}

// streamTTL is how long a silent channel's stream is stored: somewhat longer than
// its last message is served.
func streamTTL(r stream.Retention) time.Duration { return r.MaxAge + slack(r) }

// smallTTL is how long a silent channel is remembered; longer than its stream.
func smallTTL(r stream.Retention) time.Duration { return max(r.ChannelTTL, streamTTL(r)+slack(r)) }

func slack(r stream.Retention) time.Duration { return min(time.Minute, r.MaxAge/10+time.Millisecond) }

// messageHash tells two messages of one idempotency key apart; the lengths keep
// the three texts from running into each other.
func messageHash(m stream.Message) string {
	if m.IdempotencyKey == "" {
		return ""
	}
	h := sha256.New()
	for _, s := range []string{m.Payload, m.Event, m.Key} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	h.Write([]byte{byte(m.End)})
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Delete implements [stream.Log].
func (l *Log) Delete(ctx context.Context, channel string) error {
	part := l.Part(channel)
	return l.call(ctx, "delete", channel, part, true, func(ctx context.Context, c *redis.Client) error {
		reply, err := run(ctx, c, l.deleteScript, l.appendKeys(stream.Message{Channel: channel}),
			[]any{channel, smallTTL(l.opts.retention(channel)).Milliseconds()}).Text()
		if err != nil {
			return err
		}
		id, err := stream.ParseID(reply)
		if err != nil {
			return fmt.Errorf("delete script: answered id %q", reply)
		}
		l.known.heard(channel, id, 0)
		return nil
	})
}

// run runs a script by its hash, and whole where the server does not have it.
func run(ctx context.Context, c *redis.Client, s *redis.Script, keys []string, args []any) *redis.Cmd {
	cmd := s.EvalSha(ctx, c, keys, args...)
	if err := cmd.Err(); err != nil && hasPrefix(err, "NOSCRIPT") && !errors.Is(err, context.Canceled) {
		return s.Eval(ctx, c, keys, args...)
	}
	return cmd
}
