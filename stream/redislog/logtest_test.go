package redislog_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
	"rejoin/stream/logtest"
	"rejoin/stream/redislog"
	"rejoin/stream/redislog/redistest"
)

func TestLog(t *testing.T) { logtest.Run(t, newStores(t)) }

// Holds G4, G20, G21, G22.
func TestModel(t *testing.T) { logtest.Model(t, newStores(t)) }

// newStores makes stores on one Redis, each under a prefix of its own.
func newStores(t *testing.T) logtest.New {
	s := redistest.Start(t)
	var n atomic.Int64
	return func(o logtest.Options) (logtest.Store, error) {
		return &store{
			server: s,
			client: redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true}),
			options: redislog.Options{
				URL: s.URL(), Prefix: fmt.Sprint("store", n.Add(1)), IdempotencyTTL: o.IdempotencyTTL,
				Timeout:   20 * time.Second, // a busy machine is no finding
				Retention: func(string) stream.Retention { return o.Retention },
			}.WithScript(o.Script),
		}, nil
	}
}

// store is one prefix of the server.
type store struct {
	server  *redistest.Server
	client  *redis.Client
	options redislog.Options
}

func (s *store) Open() (stream.Log, error) { return redislog.Open(context.Background(), s.options) }
func (s *store) Faults() logtest.Faults    { return s }

func (s *store) Close() error {
	err := s.drop(s.options.Prefix + ":*")
	_ = s.client.Close()
	return err
}

func (s *store) Forget(l stream.Log, channel string) { l.(*redislog.Log).Forget(channel) }
func (s *store) SetClock(l stream.Log, ms uint64)    { l.(*redislog.Log).SetClock(ms) }
func (s *store) Wipe(channel string) error           { return s.drop(s.all(channel)...) }
func (s *store) LoseMessages(channel string) error   { return s.do("DEL", s.key("c", channel)) }
func (s *store) LoseState(channel string) error      { return s.do("DEL", s.key("m", channel)) }
func (s *store) Remove(channel string, id stream.ID) error {
	return s.do("XDEL", s.key("c", channel), id.String())
}
func (s *store) Trim(channel string, first stream.ID) error {
	return s.do("XTRIM", s.key("c", channel), "MINID", first.String())
}

func (s *store) AddForeign(channel string, id stream.ID) error {
	at := id.String()
	if id.IsZero() {
		at = "*"
	}
	err := s.do("XADD", s.key("c", channel), at, "foreign", "entry")
	if err != nil && strings.Contains(err.Error(), "equal or smaller") {
		return nil
	}
	return err
}

// dump answers all keys of a channel and what they hold, in turn.
var dump = redis.NewScript(`
local all = {}
for _, pattern in ipairs(ARGV) do
  for _, key in ipairs(redis.call('KEYS', pattern)) do
    table.insert(all, key)
    table.insert(all, redis.call('DUMP', key))
  end
end
return all`)

func (s *store) Save(channel string) (restore func() error, err error) {
	ctx := context.Background()
	all, err := dump.Run(ctx, s.client, nil, s.all(channel)...).StringSlice()
	return func() error {
		if err := s.Wipe(channel); err != nil {
			return err
		}
		p := s.client.Pipeline()
		for i := 0; i+1 < len(all); i += 2 {
			p.Restore(ctx, all[i], 0, all[i+1])
		}
		_, err := p.Exec(ctx)
		return err
	}, err
}

func (s *store) key(kind, channel string) string {
	p := stream.ChannelHash(channel) % 32
	return fmt.Sprintf("%s:{%d}:%s:%s", s.options.Prefix, p, kind, channel)
}

// all are patterns of a channel's keys; no other channel's match.
func (s *store) all(channel string) []any {
	return []any{s.key("c", channel), s.key("m", channel), s.key("k", channel) + ",*"}
}

// drop deletes all keys that match.
var drop = redis.NewScript(`
for _, pattern in ipairs(ARGV) do
  for _, key in ipairs(redis.call('KEYS', pattern)) do redis.call('DEL', key) end
end`)

func (s *store) drop(patterns ...any) error {
	if err := drop.Run(context.Background(), s.client, nil, patterns...).Err(); err != redis.Nil {
		return err
	}
	return nil
}

func (s *store) do(args ...any) error {
	return s.client.Do(context.Background(), args...).Err()
}
