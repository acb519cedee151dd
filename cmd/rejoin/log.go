package main

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"rejoin/api"
	"rejoin/config"
	"rejoin/stream"
	"rejoin/stream/memlog"
	"rejoin/stream/redislog"
)

// openLog opens the log that the settings name. A Redis that does not answer yet
// is no error: the server serves what it can and tells its readers.
func openLog(ctx context.Context, c *config.Config, r *rules, metrics *api.Metrics, logger zerolog.Logger) (stream.Log, error) {
	if c.Redis.URL == "" {
		return memlog.New(memlog.Options{
			Retention:      r.retention,
			IdempotencyTTL: c.Publish.IdempotencyTTL,
			MaxBytes:       int64(c.Memory.Bytes),
		}), nil
	}
	l, err := redislog.Open(ctx, redislog.Options{
		URL:            c.Redis.URL,
		Prefix:         c.Redis.Prefix,
		Partitions:     c.Redis.Partitions,
		Timeout:        c.Redis.Timeout,
		IdempotencyTTL: c.Publish.IdempotencyTTL,
		Retention:      r.retention,
		Meter:          logMeter{metrics},
		Log: func(message string, err error) {
			logger.Warn().Err(err).Msg(message)
		},
	})
	if err != nil {
		return nil, err // and not a nil *redislog.Log, which as a stream.Log is not nil
	}
	return l, nil
}

// checkRedisURL judges what config cannot: it knows no log.
func checkRedisURL(c *config.Config) error {
	if c.Redis.URL == "" {
		return nil
	}
	if err := redislog.CheckURL(c.Redis.URL); err != nil {
		return c.Fault("redis.url", err.Error())
	}
	return nil
}

// logMeter gives the kinds of failure the names they have as labels.
type logMeter struct{ *api.Metrics }

func (m logMeter) Error(_ string, kind error) {
	name := "other"
	for _, k := range []struct {
		kind error
		name string
	}{
		{stream.ErrUnavailable, "unavailable"},
		{stream.ErrUnknownOutcome, "unknown_outcome"},
		{stream.ErrBroken, "broken"},
		{stream.ErrFull, "full"},
	} {
		if errors.Is(kind, k.kind) {
			name = k.name
		}
	}
	m.Metrics.Error(name)
}
