package memlog

import (
	"context"
	"encoding/base64"
	"slices"
	"time"

	"rejoin/stream"
)

// Channels implements [stream.Log]. Pages are by name, and a page's cursor is
// its last name. One page costs a pass over all names.
func (l *Log) Channels(ctx context.Context, q stream.ChannelQuery) (stream.ChannelPage, error) {
	after, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return stream.ChannelPage{}, &stream.Error{Op: "list", Kind: stream.ErrListCursor, Err: err}
	}
	names, err := l.retained(ctx, q, string(after))
	if err != nil {
		return stream.ChannelPage{}, err
	}
	slices.Sort(names)
	page := stream.ChannelPage{Names: names}
	if limit := max(1, q.Limit); len(names) > limit {
		page.Names = slices.Clone(names[:limit])
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(names[limit-1]))
	}
	return page, nil
}

// retained are the names behind one, in no order, that are asked for and have
// something to serve.
func (l *Log) retained(ctx context.Context, q stream.ChannelQuery, after string) (names []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, "list", ""); err != nil {
		return nil, err
	}
	now := time.Now()
	for name := range l.channels {
		if name <= after || !q.Covers(name) {
			continue
		}
		if c := l.lookup(name, now); c != nil && len(c.entries) > 0 {
			names = append(names, name)
		}
	}
	return names, nil
}
