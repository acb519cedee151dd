package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rejoin/stream"
)

var manyChecks = []Check{
	{Name: "many messages at once", Run: appendAll},
	{Name: "thousands at once, in order", Run: appendThousands},
	{Name: "one of many is refused", Run: appendAllRefused},
	{Name: "many large ones at once", Run: appendLarge},
	{Name: "the list of channels", Run: listChannels},
	{Name: "the list of channels holds what has messages", Run: listRetained},
	{Name: "the list of channels after faults", Run: listHurt, Hurts: true},
}

func appendAll(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		if err := same("of nothing", len(l[0].AppendAll(ctx, nil)), 0); err != nil {
			return err
		}
		m := stream.Message{Channel: "b", Payload: "x", Event: "e", Key: "k", IdempotencyKey: "i"}
		ms := []stream.Message{{Channel: "a", Payload: "1"}, m, {Channel: "a", Payload: "2"}, m, {Channel: "c", End: stream.EndAlone}}
		results := l[0].AppendAll(ctx, ms)
		for i, r := range results {
			if r.Err != nil {
				return fmt.Errorf("message %d: %w", i, r.Err)
			}
		}
		if err := first(
			same("results", len(results), len(ms)),
			same("n of a", []uint64{results[0].ID.N, results[2].ID.N}, []uint64{1, 2}),
			same("the repeat within", results[3].Appended, stream.Appended{ID: results[1].ID, Replayed: true}),
			same("known", l[0].Known("a"), results[2].ID),
			closed(ctx, l[1], "c", results[4].ID),
		); err != nil {
			return err
		}
		p, err := l[1].Read(ctx, stream.Query{Channel: "b", Limit: 10})
		want := stream.Entry{ID: results[1].ID, Life: results[1].ID.MS, Payload: "x", Event: "e", Key: "k"}
		if err := first(err, same("the entry", p.Entries, []stream.Entry{want})); err != nil {
			return err
		}
		again := l[1].AppendAll(ctx, ms[1:2])
		return first(again[0].Err, same("the repeat", again[0].Appended, stream.Appended{ID: results[1].ID, Replayed: true}))
	})
}

func appendThousands(ctx context.Context, new New) error {
	const each = 900
	channels := []string{"a", "b", "c"}
	return with(new, Options{}, 1, func(_ Store, l []stream.Log) error {
		var ms []stream.Message
		for i := range each {
			for _, c := range channels {
				ms = append(ms, stream.Message{Channel: c, Payload: fmt.Sprint(i + 1)})
			}
		}
		results := l[0].AppendAll(ctx, ms)
		for k, c := range channels {
			p, err := l[0].Read(ctx, stream.Query{Channel: c, After: stream.BeforeFirst, Limit: each + 1})
			if err := first(err, chain(stream.BeforeFirst, p.Entries), same("payloads", payloads(p), numbered(each))); err != nil {
				return err
			}
			for i, e := range p.Entries {
				if r := results[i*len(channels)+k]; r.Err != nil || r.ID != e.ID {
					return fmt.Errorf("%v of %s was answered %+v", e.ID, c, r)
				}
			}
		}
		return nil
	})
}

func appendAllRefused(ctx context.Context, new New) error {
	return with(new, Options{}, 1, func(_ Store, l []stream.Log) error {
		_, err1 := l[0].Append(ctx, stream.Message{Channel: "a", Payload: "1", IdempotencyKey: "i"})
		ended, err2 := end(ctx, l[0], "b")
		if err := first(err1, err2); err != nil {
			return err
		}
		results := l[0].AppendAll(ctx, []stream.Message{
			{Channel: "a", Payload: "other", IdempotencyKey: "i"}, {Channel: "b", Payload: "late"},
			{Channel: "a", Payload: "2"}, {Channel: "b", End: stream.EndAlone}, {Channel: "c", Payload: "1"},
		})
		p, err := l[0].Read(ctx, stream.Query{Channel: "a", Limit: 10})
		return first(err,
			same("conflict", errors.Is(results[0].Err, stream.ErrConflict), true),
			same("ended", errors.Is(results[1].Err, stream.ErrEnded), true),
			results[2].Err, results[3].Err, results[4].Err,
			same("a", payloads(p), []string{"1", "2"}),
			same("the end", results[3].Appended, stream.Appended{ID: ended.ID, Replayed: true}),
			same("c", results[4].ID.N, 1),
		)
	})
}

func appendLarge(ctx context.Context, new New) error {
	return with(new, Options{}, 1, func(_ Store, l []stream.Log) error {
		var ms []stream.Message
		for i := range 24 {
			ms = append(ms, stream.Message{Channel: fmt.Sprint("c", i%20), Payload: strings.Repeat("x", 1<<20)})
		}
		for i, r := range l[0].AppendAll(ctx, ms) {
			if r.Err != nil || r.ID.N != uint64(i/20+1) {
				return fmt.Errorf("message %d: %+v", i, r)
			}
		}
		return nil
	})
}

// list reads the whole list in pages of a limit.
func list(ctx context.Context, l stream.Log, match string, limit int) (names []string, err error) {
	q := stream.ChannelQuery{Limit: limit}
	if match != "" {
		if q.Match, err = stream.ParsePattern(match); err != nil {
			return nil, err
		}
	}
	for range 10_000 {
		p, err := l.Channels(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(p.Names) > limit {
			return nil, fmt.Errorf("a page of %d names, limit %d", len(p.Names), limit)
		}
		names = append(names, p.Names...)
		if p.Next == "" {
			slices.Sort(names)
			return names, nil
		}
		q.Cursor = p.Next
	}
	return nil, errors.New("a list without end")
}

func listChannels(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		var ms []stream.Message
		var all []string
		for i := range 250 {
			all = append(all, fmt.Sprintf("many.%03d", i))
		}
		all = append(all, "news", "news.uk", "news.uk.rain", "newsx.uk", "~a:b@c=d+e-f")
		for _, name := range all {
			ms = append(ms, stream.Message{Channel: name, Payload: "x", IdempotencyKey: "i"})
		}
		for _, r := range l[0].AppendAll(ctx, ms) {
			if r.Err != nil {
				return r.Err
			}
		}
		for _, tt := range []struct {
			match string
			want  []string
		}{
			{"", all},
			{"**", all},
			{"news.*", []string{"news.uk"}},
			{"news.**", []string{"news", "news.uk", "news.uk.rain"}},
			{"*.uk", []string{"news.uk", "newsx.uk"}},
			{"news", []string{"news"}},
			{"*", []string{"news", "~a:b@c=d+e-f"}},
			{"nothing.**", nil},
		} {
			for _, limit := range []int{1, 7, 1000} {
				got, err := list(ctx, l[1], tt.match, limit)
				if err := first(err, same(fmt.Sprintf("%s by %d", tt.match, limit), got, tt.want)); err != nil {
					return err
				}
			}
		}
		for _, bad := range []string{"!", "a b", "0.1.1.!"} {
			if p, err := l[0].Channels(ctx, stream.ChannelQuery{Cursor: bad, Limit: 10}); !errors.Is(err, stream.ErrListCursor) {
				return fmt.Errorf("the cursor %q: %+v, %v, want ErrListCursor", bad, p, err)
			}
		}
		return nil
	})
}

func listRetained(ctx context.Context, new New) error {
	return with(new, Options{Retention: stream.Retention{MaxMessages: 1}}, 1, func(_ Store, l []stream.Log) error {
		_, err1 := publish(ctx, l[0], "kept", "1", "2")
		_, err2 := publish(ctx, l[0], "deleted", "1")
		_, err3 := publish(ctx, l[0], "again", "1")
		err4 := first(l[0].Delete(ctx, "deleted"), l[0].Delete(ctx, "again"), l[0].Delete(ctx, "never"))
		_, err5 := publish(ctx, l[0], "again", "2")
		got, err6 := list(ctx, l[0], "", 100)
		return first(err1, err2, err3, err4, err5, err6, same("the list", got, []string{"again", "kept"}))
	})
}

func listHurt(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		for _, c := range []string{"state", "gone", "wiped"} {
			if _, err := publish(ctx, l[0], c, "1"); err != nil {
				return err
			}
		}
		err := first(s.LoseState("state"), s.LoseMessages("gone"), s.Wipe("wiped"), s.AddForeign("foreign", stream.ID{MS: 5, N: 5}))
		got, err2 := list(ctx, l[1], "", 100)
		return first(err, err2, same("the list", got, []string{"state"}))
	})
}
