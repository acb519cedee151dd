package redislog

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

// maxPipeline bounds how many looks share a pipeline.
const maxPipeline = 1000

// Read implements [stream.Log].
func (l *Log) Read(ctx context.Context, q stream.Query) (page stream.Page, err error) {
	err = l.call(ctx, "read", q.Channel, l.Part(q.Channel), false, func(ctx context.Context, c *redis.Client) error {
		pages, err := l.read(ctx, c, []stream.Query{q})
		if err != nil {
			return err
		}
		page = pages[0]
		return page.Err
	})
	if err != nil {
		return stream.Page{}, err
	}
	return page, nil
}

// Bounds implements [stream.Log]. Length is exact unless foreign writers added
// or removed entries or a life of the log ended unnoticed between First and Last.
func (l *Log) Bounds(ctx context.Context, channel string) (b stream.Bounds, err error) {
	err = l.call(ctx, "bounds", channel, l.Part(channel), false, func(ctx context.Context, c *redis.Client) error {
		pages, err := l.read(ctx, c, []stream.Query{{Channel: channel, After: stream.Earliest, Limit: 1}})
		if err != nil {
			return err
		}
		p := pages[0]
		if p.Err != nil {
			return p.Err
		}
		b = stream.Bounds{Last: p.Last}
		if len(p.Entries) == 0 {
			return nil
		}
		stored, err := c.XLen(ctx, l.keys.stream(channel)).Result()
		if err != nil {
			return err
		}
		b.First = p.Entries[0].ID
		b.Length = min(p.Last.N-b.First.N+1, uint64(stored))
		return nil
	})
	if err != nil {
		return stream.Bounds{}, err
	}
	return b, nil
}

// read answers the queries with one client, in as few round trips as bounded
// replies allow. What fails for one channel alone is its page's Err.
func (l *Log) read(ctx context.Context, c *redis.Client, queries []stream.Query) ([]stream.Page, error) {
	looks := make([]*look, len(queries))
	now := l.Now()
	open := make([]*look, 0, len(queries))
	for i, q := range queries {
		looks[i] = l.newLook(q, now)
		open = append(open, looks[i])
	}
	for len(open) > 0 {
		var bytes, n int
		for n = 0; n < len(open) && n < maxPipeline && (n == 0 || bytes < maxReply); n++ {
			bytes += open[n].expected()
		}
		if err := l.round(ctx, c, open[:n]); err != nil {
			return nil, err
		}
		rest := open[n:]
		for _, k := range open[:n] {
			if !k.done {
				rest = append(rest, k)
			}
		}
		open = rest
	}
	pages := make([]stream.Page, len(looks))
	for i, k := range looks {
		pages[i] = k.page
	}
	return pages, nil
}

// round is one pipeline, which Redis must have answered within Options.Timeout.
// Its error ends the call; a channel's own ends its look.
func (l *Log) round(ctx context.Context, c *redis.Client, looks []*look) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	p := c.Pipeline()
	for _, k := range looks {
		k.ask(ctx, p)
	}
	if _, err := p.Exec(ctx); err != nil && !isReply(err) {
		return err
	}
	for _, k := range looks {
		err := k.answer()
		if err == nil {
			continue
		}
		err = failure("read", k.q.Channel, err, false)
		if !errors.Is(err, stream.ErrBroken) || hasPrefix(err, "NOAUTH") {
			return err
		}
		k.page, k.done = stream.Page{Channel: k.q.Channel, Err: err}, true
	}
	return nil
}
