package redislog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"rejoin/stream"
)

// look answers one query, in rounds: each round it adds commands to a pipeline
// (ask) and takes their replies (answer), until it is done.
//
// What the small key says is read first, or in the same pipeline before the
// entries: then a message between the two is an entry beyond last, never a hole
// below it. A Follow that reaches the end needs none: its last entry is the last.
type look struct {
	q    stream.Query
	log  *Log
	keep stream.Retention
	aged stream.ID // entries below are too old to be served
	page stream.Page
	size int // of an entry, as expected; 0: not known

	stored *state // once known
	small  *redis.StringCmd
	info   *redis.XInfoStreamCmd // asked for in place of a missing small key
	newest *scan                 // our newest entry, likewise
	placed *scan                 // the newest entry at or below After
	main   *scan
	oldest *scan // the oldest entry served

	pending []stream.Entry // read by main, not yet judged
	waiting int            // their bytes
	seen    uint64         // N of the newest entry an upward scan has read
	bytes   int            // of page.Entries
	full    bool           // the page is; one more served entry means More
	doubt   bool           // whether After is placed is still open
	behind  bool           // a Follow that does not reach the end
	done    bool
}

func (l *Log) newLook(q stream.Query, now time.Time) *look {
	k := &look{q: q, log: l, keep: l.opts.retention(q.Channel), page: stream.Page{Channel: q.Channel}}
	k.q.Limit = max(1, q.Limit)
	// Served is what is younger than MaxAge.
	k.aged = stream.AtTime(now.Add(-k.keep.MaxAge))
	k.aged.MS++
	k.size = l.known.get(q.Channel).size
	if q.Before.IsZero() && !q.Follow {
		// Nothing lies at or below these.
		k.doubt = !q.After.IsZero() && q.After != stream.BeforeFirst
		k.page.Placed = !k.doubt
	}
	return k
}

// expected is about how many bytes the next round brings, for packing looks.
func (k *look) expected() int {
	if k.size == 0 || k.main != nil && k.main.done {
		return 256
	}
	n := k.q.Limit
	if k.q.Before.IsZero() {
		last := k.log.known.get(k.q.Channel).last
		if k.stored != nil {
			last = k.stored.last
		}
		if k.q.After.N > 0 && last.N >= k.q.After.N {
			n = min(n, int(min(last.N-k.q.After.N, maxCount))+1)
		}
	}
	return n * (k.size + stream.EntryOverhead)
}

// ask adds this round's commands.
func (k *look) ask(ctx context.Context, p redis.Pipeliner) {
	stream := k.log.keys.stream(k.q.Channel)
	switch {
	case k.stored != nil || k.q.Follow && !k.behind:
	case k.small == nil:
		k.small = p.Get(ctx, k.log.keys.small(k.q.Channel))
		if k.size == 0 {
			return // it tells the size of what comes next
		}
	default:
		k.askLost(ctx, p, stream)
	}
	if k.main == nil {
		k.begin(stream)
	}
	for _, s := range []*scan{k.placed, k.main, k.oldest} {
		if s != nil && !s.done {
			s.ask(ctx, p)
		}
	}
}

// askLost asks for what stands in for a missing small key.
func (k *look) askLost(ctx context.Context, p redis.Pipeliner, key string) {
	if k.newest == nil {
		k.info = p.XInfoStream(ctx, key)
		k.newest = &scan{key: key, down: true, from: "+", to: "-", want: 1, take: k.takeNewest}
	}
	if !k.newest.done {
		k.newest.ask(ctx, p)
	}
}

// begin sets up the scan for the entries and, where it does not pass After
// itself, the one that looks below it.
func (k *look) begin(key string) {
	k.main = &scan{key: key, want: k.q.Limit + 1, size: k.size, take: k.takeMain}
	if k.q.MaxBytes > 0 {
		// As many as fill MaxBytes by what is known, and one to see whether there are more.
		k.main.want = min(k.main.want, k.q.MaxBytes/(max(1, k.size)+stream.EntryOverhead)+2)
	}
	switch {
	case !k.q.Before.IsZero():
		k.main.down, k.main.from, k.main.to = true, downFrom(k.q.Before, true), k.aged.String()
	case k.q.After.Less(k.aged):
		k.main.from, k.main.to = k.aged.String(), "+"
		k.lookBelow(key)
	case k.doubt:
		// After itself tells that it is placed.
		k.main.from, k.main.to = upFrom(k.q.After, false), "+"
		k.main.want++
	default:
		k.main.from, k.main.to = upFrom(k.q.After, true), "+"
	}
}

func (k *look) lookBelow(key string) {
	if k.doubt && k.placed == nil {
		k.placed = &scan{key: key, down: true, from: downFrom(k.q.After, false), to: "-", want: 1, size: k.size, take: k.takePlaced}
	}
}

// answer takes the replies of a round. An error is of Redis or the connection.
func (k *look) answer() error {
	if err := k.answerState(); err != nil {
		return err
	}
	for _, s := range []*scan{k.placed, k.main, k.oldest} {
		if s != nil && s.cmd != nil {
			if err := s.answer(); err != nil {
				return err
			}
			s.cmd = nil
		}
	}
	switch {
	case k.main == nil:
	case k.stored != nil || k.q.Follow && k.main.end:
		k.judge()
		k.settle()
	case k.q.Follow && k.main.done:
		k.behind = true // there is more: only the small key tells what is still served
	}
	return nil
}

func (k *look) answerState() error {
	switch {
	case k.small == nil || k.stored != nil:
		return nil
	case k.newest == nil:
		small, err := k.small.Result()
		if err == redis.Nil {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := parseSmall(small)
		if !ok {
			return &stream.Error{Op: "read", Channel: k.q.Channel, Kind: stream.ErrBroken,
				Err: fmt.Errorf("%s is not the small key of a channel", k.log.keys.small(k.q.Channel))}
		}
		k.stored, k.size = &st, max(k.size, st.size, 1)
		return nil
	}
	return k.answerLost()
}

// answerLost finds the state without a small key, as common.lua's last does.
func (k *look) answerLost() error {
	if k.newest.cmd != nil {
		if err := k.newest.answer(); err != nil {
			return err
		}
		k.newest.cmd = nil
	}
	if !k.newest.done {
		return nil
	}
	if k.stored == nil { // takeNewest found none
		k.stored = &state{}
	}
	info, err := k.info.Result()
	switch {
	case err != nil && hasPrefix(err, "ERR no such key"):
		return nil
	case err != nil:
		return err
	}
	generated, err := stream.ParseID(info.LastGeneratedID)
	if err != nil {
		return err
	}
	switch {
	case !k.stored.last.IsZero():
		if generated.N >= k.stored.last.N && !k.stored.ended {
			k.stored.last = generated
		}
	case info.Length == 0 && generated.N > 0:
		k.stored.last, k.stored.life = generated, generated.MS
	}
	return nil
}

func (k *look) takeNewest(r raw) bool {
	e, ours := r.entry()
	if ours {
		k.stored = &state{last: e.ID, life: e.Life, size: r.bytes(), ended: e.End != stream.NotEnd}
	}
	return ours
}

func (k *look) takePlaced(r raw) bool {
	_, ours := r.entry()
	if ours {
		k.doubt, k.page.Placed = false, r.id == k.q.After
	}
	return ours
}

// takeMain collects; judge decides once the state is known.
func (k *look) takeMain(r raw) bool {
	e, ours := r.entry()
	switch {
	case !ours:
		return false
	case k.q.Before.IsZero() && e.ID == k.q.After:
		k.doubt, k.page.Placed = false, true
		return false
	}
	k.pending, k.seen = append(k.pending, e), e.ID.N
	k.log.known.heard(k.q.Channel, e.ID, len(e.Payload)+len(e.Event)+len(e.Key))
	if k.stored != nil {
		return k.judge()
	}
	full := len(k.pending) > k.q.Limit || k.q.MaxBytes > 0 && k.waiting >= k.q.MaxBytes
	k.waiting += e.Bytes()
	return full
}

// judge moves pending entries that are served into the page until it is full,
// and reports whether that is decided.
func (k *look) judge() (enough bool) {
	last := k.last()
	for i := range k.pending {
		if e := &k.pending[i]; last.Less(e.ID) {
			last = e.ID
			if k.stored != nil {
				// appended since
				k.stored.last, k.stored.life, k.stored.ended = e.ID, e.Life, e.End != stream.NotEnd
			}
		}
	}
	for i := range k.pending {
		e := &k.pending[i]
		switch {
		case k.page.More:
		case !k.served(e, last):
		case k.full:
			k.page.More = true
		default:
			k.page.Entries = append(k.page.Entries, *e)
			k.bytes += e.Bytes()
			k.full = len(k.page.Entries) == k.q.Limit || k.q.MaxBytes > 0 && k.bytes >= k.q.MaxBytes
		}
	}
	k.pending, k.waiting = k.pending[:0], 0
	return k.page.More
}

// last is the channel's last id as far as it is known.
func (k *look) last() stream.ID {
	if k.stored != nil {
		return k.stored.last
	}
	return stream.ID{}
}

// served reports whether retention and the last delete let an entry be seen.
func (k *look) served(e *stream.Entry, last stream.ID) bool {
	if e.ID.Less(k.aged) || k.stored != nil && !k.stored.floor.Less(e.ID) {
		return false
	}
	return e.ID.N+uint64(k.keep.MaxMessages) > last.N
}

// settle decides what is left to ask.
func (k *look) settle() {
	if k.main.done && !k.main.end && !k.page.More {
		k.main.done = false // it had enough entries, but not of those served
	}
	if !k.main.done {
		k.skip(k.main)
		return
	}
	key := k.main.key
	if k.doubt && k.placed == nil {
		k.lookBelow(key)
		return
	}
	if k.placed != nil && k.placed.done && k.doubt {
		k.doubt, k.page.Placed = false, true // nothing lies there
	}
	if k.placed != nil && !k.placed.done {
		return
	}
	if k.q.Before.IsZero() && !k.q.Follow && !k.page.Placed {
		if k.oldest == nil {
			k.seen = 0
			k.oldest = &scan{key: key, from: k.aged.String(), to: "+", want: 1, size: k.size, take: k.takeOldest}
		}
		if !k.oldest.done {
			k.skip(k.oldest)
			return
		}
	}
	k.finish()
}

// skip makes the next reply reach past what is stored but no longer served: the
// numbers say how many that are.
func (k *look) skip(s *scan) {
	if k.stored == nil || s.down || k.seen == 0 {
		return
	}
	if first := k.stored.last.N - min(k.stored.last.N, uint64(k.keep.MaxMessages)) + 1; k.seen < first {
		s.want = max(s.want, int(min(first-k.seen, maxCount))+k.q.Limit)
	}
}

func (k *look) takeOldest(r raw) bool {
	e, ours := r.entry()
	if ours {
		k.seen = e.ID.N
	}
	if !ours || !k.served(&e, k.last()) {
		return false
	}
	k.page.Oldest = e.ID
	return true
}

// finish completes the page.
func (k *look) finish() {
	if k.main.down {
		slices.Reverse(k.page.Entries)
	}
	if k.stored != nil && !k.q.Follow {
		k.page.Last, k.page.Life, k.page.Floor, k.page.Ended = k.stored.last, k.stored.life, k.stored.floor, k.stored.ended
		k.log.known.heard(k.q.Channel, k.stored.last, k.stored.size)
	}
	k.done = true
}
