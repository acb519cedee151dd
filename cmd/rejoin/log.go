package main

import (
	"context"

	"rejoin/api"
	"rejoin/config"
	"rejoin/stream"
	"rejoin/stream/memlog"
)

// openLog opens the log that the settings name.
func openLog(_ context.Context, c *config.Config, r *rules, _ *api.Metrics) (stream.Log, error) {
	if c.Redis.URL != "" {
		return nil, c.Fault("redis.url", "is not built yet: take it out")
	}
	return memlog.New(memlog.Options{
		Retention:      r.retention,
		IdempotencyTTL: c.Publish.IdempotencyTTL,
		MaxBytes:       int64(c.Memory.Bytes),
	}), nil
}
