package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of the wait between two tries.
const (
	firstWait = 500 * time.Millisecond
	mostWait  = 10 * time.Second
)

// backoff is full jitter: each wait is random from nothing to a bound that
// doubles up to mostWait, so that clients that were cut off together come back
// one by one.
type backoff struct{ n int }

func (b *backoff) next() time.Duration {
	most := mostWait
	if b.n < 10 {
		most = min(mostWait, firstWait<<b.n)
	}
	b.n++
	return rand.N(most)
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
