package redislog

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

const (
	// scanCount is about how many keys one SCAN looks at.
	scanCount = 1000
	// scanSteps is the most SCANs of a page: keys that match nothing are many
	// where there are many idempotency keys.
	scanSteps = 20
)

// Channels implements [stream.Log]. It goes over all keys of one server after
// the other (SCAN), and anew over a server that has taken another's place. Only a
// table of keys that shrinks between two pages may hide one.
func (l *Log) Channels(ctx context.Context, q stream.ChannelQuery) (stream.ChannelPage, error) {
	at, err := parseListPlace(q.Cursor)
	if err == nil && at.part >= l.Parts() {
		err = errors.New("no such part")
	}
	if err != nil {
		return stream.ChannelPage{}, &stream.Error{Op: "list", Kind: stream.ErrListCursor, Err: err}
	}
	var page stream.ChannelPage
	err = l.call(ctx, "list", "", at.part, false, func(ctx context.Context, c *redis.Client) (err error) {
		page, err = l.list(ctx, c, q, at)
		return err
	})
	if err != nil {
		return stream.ChannelPage{}, err
	}
	return page, nil
}

// list is one page, from a place on the server that c is a client of.
func (l *Log) list(ctx context.Context, c *redis.Client, q stream.ChannelQuery, at listPlace) (page stream.ChannelPage, err error) {
	if here := addrHash(c.Options().Addr); at.addr != here {
		at = listPlace{part: at.part, addr: here}
	}
	limit := max(1, q.Limit)
	for range scanSteps {
		keys, next, err := c.ScanType(ctx, at.scan, l.keys.streams(q.Match), scanCount, "stream").Result()
		if err != nil {
			return page, err
		}
		names, err := l.retained(ctx, c, l.named(keys, q, at.after))
		if err != nil {
			return page, err
		}
		for _, name := range names {
			if len(page.Names) == limit {
				page.Next = at.String()
				return page, nil
			}
			if !slices.Contains(page.Names, name) {
				page.Names = append(page.Names, name)
			}
			at.after = name
		}
		if next == 0 {
			part, more, err := l.nextServer(ctx, at.part)
			if more {
				page.Next = listPlace{part: part}.String()
			}
			return page, err
		}
		at.scan, at.after = next, ""
	}
	page.Next = at.String()
	return page, nil
}

// named are the channels whose streams these keys are, sorted, each once, if they
// are asked for and behind a name.
func (l *Log) named(keys []string, q stream.ChannelQuery, after string) (names []string) {
	for _, key := range keys {
		if name, ok := l.keys.channel(key); ok && q.Covers(name) && name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// retained keeps the names of channels that have something to serve.
func (l *Log) retained(ctx context.Context, c *redis.Client, names []string) ([]string, error) {
	p := c.Pipeline()
	smalls, counts := make([]*redis.StringCmd, len(names)), make([]*redis.IntCmd, len(names))
	for i, name := range names {
		smalls[i], counts[i] = p.Get(ctx, l.keys.small(name)), p.XLen(ctx, l.keys.stream(name))
	}
	if _, err := p.Exec(ctx); err != nil && !isReply(err) {
		return nil, err
	}
	has := map[string]bool{}
	var lost []stream.Query // without a small key: look at the entries
	now := l.Now()
	for i, name := range names {
		st, ok := parseSmall(smalls[i].Val())
		if !ok {
			lost = append(lost, stream.Query{Channel: name, After: stream.Earliest, Limit: 1})
			continue
		}
		age := now.Sub(st.last.Time())
		has[name] = counts[i].Val() > 0 && st.floor.Less(st.last) && age < l.opts.retention(name).MaxAge
	}
	pages, err := l.read(ctx, c, lost)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		has[p.Channel] = len(p.Entries) > 0
	}
	return slices.DeleteFunc(names, func(name string) bool { return !has[name] }), nil
}

// nextServer is the first part behind this one whose master has no part before
// it; more is false if there is none.
func (l *Log) nextServer(ctx context.Context, part int) (next int, more bool, err error) {
	seen := map[string]bool{}
	for p := range l.Parts() {
		addr, err := l.topology.master(ctx, p)
		if err != nil {
			return 0, false, &stream.Error{Op: "find the master", Kind: stream.ErrUnavailable, Err: err}
		}
		if p > part && !seen[addr] {
			return p, true, nil
		}
		seen[addr] = true
	}
	return 0, false, nil
}

// listPlace is where a page of the list ended: at a cursor of SCAN on the server
// that had this part, behind a name of what that SCAN gives. Another server's
// cursors mean something else.
type listPlace struct {
	part  int
	addr  uint32 // hash of its address; 0: not begun
	scan  uint64
	after string
}

func (p listPlace) String() string {
	return fmt.Sprintf("%x.%x.%x.%s", p.part, p.addr, p.scan, base64.RawURLEncoding.EncodeToString([]byte(p.after)))
}

func parseListPlace(s string) (p listPlace, err error) {
	if s == "" {
		return p, nil
	}
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return p, errors.New("want four parts")
	}
	part, err1 := strconv.ParseUint(parts[0], 16, 16)
	addr, err2 := strconv.ParseUint(parts[1], 16, 32)
	scan, err3 := strconv.ParseUint(parts[2], 16, 64)
	after, err4 := base64.RawURLEncoding.DecodeString(parts[3])
	return listPlace{int(part), uint32(addr), scan, string(after)}, errors.Join(err1, err2, err3, err4)
}

func addrHash(addr string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(addr)) // never fails
	return max(1, h.Sum32())
}
