package logtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"rejoin/stream"
)

var readChecks = []Check{
	{Name: "reading a channel never used", Run: readNeverUsed},
	{Name: "reading after", Run: readAfter},
	{Name: "reading before", Run: readBefore},
	{Name: "placed and oldest", Run: placed},
	{Name: "delete, seen by the other client", Run: deleted},
	{Name: "trimmed by count, served exactly", Run: trimmedByCount},
	{Name: "trimmed by age, served exactly", Run: trimmedByAge},
}

func readNeverUsed(ctx context.Context, new New) error {
	return with(new, Options{}, 1, func(_ Store, l []stream.Log) error {
		want := stream.Page{Channel: "a", Placed: true}
		for _, q := range []stream.Query{
			{}, {After: stream.BeforeFirst}, {After: stream.ID{MS: 5, N: 5}}, {After: stream.MaxID},
		} {
			q.Channel, q.Limit = "a", 10
			p, err := l[0].Read(ctx, q)
			if err := first(err, same(fmt.Sprint("after ", q.After), p, want)); err != nil {
				return err
			}
		}
		p, err := l[0].Read(ctx, stream.Query{Channel: "a", Before: stream.MaxID, Limit: 10})
		if err := first(err, same("before the end", len(p.Entries), 0), same("last", p.Last, stream.ID{})); err != nil {
			return err
		}
		b, err := l[0].Bounds(ctx, "a")
		return first(err, same("bounds", b, stream.Bounds{}))
	})
}

// tens makes a channel with the messages 1-10 of 1,000 bytes each, for reading.
func tens(ctx context.Context, l stream.Log) (ids []stream.ID, err error) {
	for i := range 10 {
		id, err := publish(ctx, l, "a", fmt.Sprintf("%d%s", i+1, strings.Repeat(".", 999-i/9)))
		if err != nil {
			return nil, err
		}
		ids = append(ids, id...)
	}
	return ids, nil
}

// span is the first and last n of a page, "-" if it is empty, "+" for more.
func span(p stream.Page) string {
	s := "-"
	if n := len(p.Entries); n > 0 {
		s = fmt.Sprint(p.Entries[0].ID.N, "-", p.Entries[n-1].ID.N)
	}
	if p.More {
		s += "+"
	}
	return s
}

func readAfter(ctx context.Context, new New) error {
	const size = 1000 + stream.EntryOverhead
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		ids, err := tens(ctx, l[0])
		if err != nil {
			return err
		}
		for _, tt := range []struct {
			after           stream.ID
			limit, maxBytes int
			want            string
		}{
			{stream.Earliest, 100, 0, "1-10"},
			{stream.Earliest, 10, 0, "1-10"},
			{stream.Earliest, 9, 0, "1-9+"},
			{stream.Earliest, 1, 0, "1-1+"},
			{stream.BeforeFirst, 3, 0, "1-3+"},
			{ids[0], 100, 0, "2-10"},
			{ids[4], 3, 0, "6-8+"},
			{ids[4], 5, 0, "6-10"},
			{ids[8], 1, 0, "10-10"},
			{ids[9], 1, 0, "-"},
			{stream.MaxID, 1, 0, "-"},
			{stream.ID{MS: ids[9].MS, N: ids[9].N + 1}, 1, 0, "-"},
			{stream.Earliest, 100, 1, "1-1+"}, // one is always given
			{stream.Earliest, 100, size, "1-1+"},
			{stream.Earliest, 100, size + 1, "1-2+"}, // it ends with the one that reaches it
			{stream.Earliest, 100, 3 * size, "1-3+"},
			{stream.Earliest, 2, 3 * size, "1-2+"},
			{stream.Earliest, 100, 10 * size, "1-10"},
			{ids[8], 100, 1, "10-10"},
		} {
			for _, follow := range []bool{false, true} {
				q := stream.Query{Channel: "a", After: tt.after, Limit: tt.limit, MaxBytes: tt.maxBytes, Follow: follow}
				p, err := l[1].Read(ctx, q)
				if err := first(err, same(fmt.Sprintf("%+v", q), span(p), tt.want)); err != nil {
					return err
				}
				if follow {
					continue
				}
				if err := first(same("last", p.Last, ids[9]), same("life", p.Life, ids[0].MS), same("floor", p.Floor, stream.ID{})); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func readBefore(ctx context.Context, new New) error {
	const size = 1000 + stream.EntryOverhead
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		ids, err := tens(ctx, l[0])
		if err != nil {
			return err
		}
		for _, tt := range []struct {
			before          stream.ID
			limit, maxBytes int
			want            string
		}{
			{stream.MaxID, 100, 0, "1-10"},
			{stream.MaxID, 10, 0, "1-10"},
			{stream.MaxID, 9, 0, "2-10+"},
			{stream.MaxID, 1, 0, "10-10+"},
			{ids[9], 3, 0, "7-9+"},
			{ids[3], 3, 0, "1-3"},
			{ids[3], 2, 0, "2-3+"},
			{ids[1], 1, 0, "1-1"},
			{ids[0], 1, 0, "-"},
			{stream.BeforeFirst, 1, 0, "-"},
			{stream.MaxID, 100, 1, "10-10+"},
			{stream.MaxID, 100, size, "10-10+"},
			{stream.MaxID, 100, size + 1, "9-10+"},
			{ids[5], 2, 3 * size, "4-5+"},
			{stream.MaxID, 100, 10 * size, "1-10"},
		} {
			q := stream.Query{Channel: "a", Before: tt.before, Limit: tt.limit, MaxBytes: tt.maxBytes}
			p, err := l[1].Read(ctx, q)
			if err := first(err, same(fmt.Sprintf("%+v", q), span(p), tt.want), same("last", p.Last, ids[9])); err != nil {
				return err
			}
			for i := 1; i < len(p.Entries); i++ {
				if err := chain(p.Entries[i-1].ID, p.Entries[i:i+1]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func placed(ctx context.Context, new New) error {
	return with(new, Options{Retention: stream.Retention{MaxMessages: 3}}, 1, func(_ Store, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", numbered(5)...)
		if err != nil {
			return err
		}
		beside := func(id stream.ID) stream.ID { return stream.ID{MS: id.MS, N: id.N + 100} }
		for _, tt := range []struct {
			after  stream.ID
			placed bool
		}{
			{stream.Earliest, true}, {stream.BeforeFirst, true}, // below everything
			{stream.ID{MS: ids[0].MS - 1, N: 99}, true},
			{ids[0], true}, {ids[1], true}, // trimmed
			{ids[2], true}, {ids[3], true}, {ids[4], true}, // served
			{beside(ids[4]), false}, {stream.MaxID, false}, {stream.ID{MS: ids[4].MS + 1, N: 5}, false},
		} {
			p, err := l[0].Read(ctx, stream.Query{Channel: "a", After: tt.after, Limit: 10})
			if err := first(err, same(fmt.Sprint("placed ", tt.after), p.Placed, tt.placed)); err != nil {
				return err
			}
			if !p.Placed {
				if err := same(fmt.Sprint("oldest beside ", tt.after), p.Oldest, ids[2]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func deleted(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		if err := l[0].Delete(ctx, "a"); err != nil {
			return fmt.Errorf("deleting a channel never used: %w", err)
		}
		ids, err := publish(ctx, l[0], "a", numbered(5)...)
		if err != nil {
			return err
		}
		if err := same("the first id after deleting nothing", ids[0].N, 1); err != nil {
			return err
		}
		for range 2 { // twice is as good as once
			if err := l[0].Delete(ctx, "a"); err != nil {
				return err
			}
		}
		b, err := l[1].Bounds(ctx, "a")
		if err := first(err, same("bounds", b, stream.Bounds{Last: ids[4]})); err != nil {
			return err
		}
		p, err := l[1].Read(ctx, stream.Query{Channel: "a", After: ids[1], Limit: 10})
		want := stream.Page{Channel: "a", Last: ids[4], Life: ids[0].MS, Floor: ids[4], Placed: true}
		if err := first(err, same("the page", p, want)); err != nil {
			return err
		}
		gap := stream.Gap{Channel: "a", After: ids[1], Missed: 3, Reason: stream.Trimmed}
		if err := first(
			same("told behind the end", verdict(stream.Resume(ids[1], p)), verdict(stream.Verdict{Gap: &gap, From: ids[4]})),
			same("told at the end", verdict(stream.Resume(ids[4], p)), verdict(stream.Verdict{From: ids[4]})),
		); err != nil {
			return err
		}
		more, err := publish(ctx, l[1], "a", "6")
		if err != nil {
			return err
		}
		p, err = l[0].Read(ctx, stream.Query{Channel: "a", After: ids[4], Limit: 10})
		return first(err,
			same("the next id", more[0].N, 6),
			same("the page", payloads(p), []string{"6"}),
			chain(ids[4], p.Entries),
			same("the floor", p.Floor, ids[4]),
			same("the life", p.Life, ids[0].MS),
		)
	})
}

func trimmedByCount(ctx context.Context, new New) error {
	const keep, total = 7, 250
	return with(new, Options{Retention: stream.Retention{MaxMessages: keep}}, 2, func(_ Store, l []stream.Log) error {
		var ids []stream.ID
		for i := range total {
			id, err := publish(ctx, l[i%2], "a", fmt.Sprint(i+1))
			if err != nil {
				return err
			}
			ids = append(ids, id...)
			if i != 5 && i != 6 && i != 7 && i < total-3 {
				continue
			}
			want := numbered(i + 1)[max(0, i+1-keep):]
			up, err1 := l[0].Read(ctx, stream.Query{Channel: "a", Limit: 100})
			down, err2 := l[1].Read(ctx, stream.Query{Channel: "a", Before: stream.MaxID, Limit: 100})
			b, err3 := l[1].Bounds(ctx, "a")
			if err := first(err1, err2, err3,
				same("from the oldest", payloads(up), want),
				same("from the newest", payloads(down), want),
				same("more", up.More || down.More, false),
				same("bounds", b, stream.Bounds{First: ids[i+1-len(want)], Last: ids[i], Length: uint64(len(want))}),
			); err != nil {
				return fmt.Errorf("after %d messages: %w", i+1, err)
			}
		}
		oldest := total - keep // its index
		for i, missed := range map[int]uint64{oldest: 0, oldest - 1: 0, oldest - 2: 1, oldest - 3: 2, 0: uint64(oldest - 1)} {
			p, err := l[0].Read(ctx, stream.Query{Channel: "a", After: ids[i], Limit: 100})
			if err != nil {
				return err
			}
			v := stream.Resume(ids[i], p)
			if (v.Gap == nil) != (missed == 0) || v.Gap != nil && (v.Gap.Reason != stream.Trimmed || v.Gap.Missed != missed) {
				return fmt.Errorf("%d before the oldest: told %+v, want %d trimmed", oldest-i, v.Gap, missed)
			}
		}
		p, err := l[0].Read(ctx, stream.Query{Channel: "a", Before: ids[oldest], Limit: 100})
		return first(err, same("below the oldest", span(p), "-"))
	})
}

// trimmedByAge reads all the time while two messages grow old one after the
// other: each is served until its time, and never after.
func trimmedByAge(ctx context.Context, new New) error {
	const age = 300 * time.Millisecond
	// An engine may know the log's clock only as well as a round trip tells.
	const blur = 25 * time.Millisecond
	return with(new, Options{Retention: stream.Retention{MaxAge: age}}, 1, func(_ Store, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", "1")
		if err != nil {
			return err
		}
		return eventually(ctx, func() (bool, error) {
			if len(ids) == 1 && l[0].Now().Sub(ids[0].Time()) > age/2 {
				second, err := publish(ctx, l[0], "a", "2")
				if err != nil {
					return false, err
				}
				ids = append(ids, second...)
			}
			before := l[0].Now()
			p, err := l[0].Read(ctx, stream.Query{Channel: "a", After: stream.BeforeFirst, Limit: 10})
			if err != nil {
				return false, err
			}
			after := l[0].Now()
			served := map[stream.ID]bool{}
			for _, e := range p.Entries {
				served[e.ID] = true
			}
			for _, id := range ids {
				end := id.Time().Add(age)
				if served[id] && before.After(end.Add(blur)) {
					return false, fmt.Errorf("%v is served %v after its time", id, before.Sub(end))
				}
				if !served[id] && after.Before(end.Add(-blur)) {
					return false, fmt.Errorf("%v is gone %v before its time", id, end.Sub(after))
				}
			}
			if len(ids) < 2 || len(served) > 0 {
				return false, nil
			}
			b, err := l[0].Bounds(ctx, "a")
			gap := stream.Gap{Channel: "a", After: stream.BeforeFirst, Missed: 2, Reason: stream.Trimmed}
			return true, first(err,
				same("bounds of what is too old", b, stream.Bounds{Last: ids[1]}),
				same("told of what is too old", verdict(stream.Resume(stream.BeforeFirst, p)), verdict(stream.Verdict{Gap: &gap, From: ids[1]})),
			)
		})
	})
}
