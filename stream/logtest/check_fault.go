package logtest

import (
	"context"
	"fmt"

	"rejoin/stream"
)

var faultChecks = []Check{
	{Name: "a clock set back", Run: clockSetBack, Hurts: true},
	{Name: "foreign entries", Run: foreignEntries, Hurts: true},
	{Name: "hundreds of foreign entries", Run: manyForeignEntries, Hurts: true},
	{Name: "a foreign entry far ahead", Run: foreignAhead, Hurts: true},
	{Name: "entries removed by others", Run: removedByOthers, Hurts: true},
	{Name: "the small key lost", Run: stateLost, Hurts: true},
	{Name: "the small key lost after a delete", Run: stateLostAfterDelete, Hurts: true},
	{Name: "the messages expired", Run: messagesLost, Hurts: true},
	{Name: "wiped and noticed", Run: wipedNoticed, Hurts: true},
	{Name: "wiped and not noticed", Run: wipedUnnoticed, Hurts: true},
	{Name: "rolled back and noticed", Run: rolledBack, Hurts: true},
	{Name: "rolled back, regrown and noticed late", Run: noticedLate, Hurts: true},
	{Name: "a known id far ahead of the clock", Run: knownFarAhead, Hurts: true},
	{Name: "idempotency outlives a lost small key", Run: idempotencyStateLost, Hurts: true},
}

// epoch is the moment the fault checks' clocks begin at: far ahead of any real
// clock, 2100-01-01.
const epoch = 4102444800_000

// hurt runs f on two clients with a clock each, both at epoch.
func hurt(new New, o Options, f func(s Faults, l []stream.Log) error) error {
	return with(new, o, 2, func(s Store, l []stream.Log) error {
		for _, l := range l {
			s.Faults().SetClock(l, epoch)
		}
		return f(s.Faults(), l)
	})
}

// told reads behind a cursor and says what the reader is told and given.
func told(ctx context.Context, l stream.Log, cursor stream.ID) (string, error) {
	p, err := l.Read(ctx, stream.Query{Channel: "a", After: cursor, Limit: 1000})
	if err != nil {
		return "", err
	}
	v := stream.Resume(cursor, p)
	if v.From != cursor {
		if p, err = l.Read(ctx, stream.Query{Channel: "a", After: v.From, Limit: 1000}); err != nil {
			return "", err
		}
	}
	s := ""
	if v.Gap != nil {
		s = string(v.Gap.Reason) + " "
		if v.Gap.Reason == stream.Trimmed {
			s = fmt.Sprint(s, v.Gap.Missed, " ")
		}
	}
	return s + fmt.Sprint(payloads(p)), nil
}

// tells checks what readers at these cursors are told.
func tells(ctx context.Context, l stream.Log, want map[stream.ID]string) error {
	for cursor, want := range want {
		got, err := told(ctx, l, cursor)
		if err := first(err, same(fmt.Sprint("a reader at ", cursor), got, want)); err != nil {
			return err
		}
	}
	return nil
}

func clockSetBack(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		var ids []stream.ID
		for i, ms := range []uint64{0, 5000, 1000, 0, 5000, 5001, 4000} {
			s.SetClock(l[i%2], epoch+ms)
			id, err := publish(ctx, l[i%2], "a", fmt.Sprint(i+1))
			if err != nil {
				return err
			}
			ids = append(ids, id...)
		}
		at := func(ms, n uint64) stream.ID { return stream.ID{MS: epoch + ms, N: n} }
		p, err := l[0].Read(ctx, stream.Query{Channel: "a", After: stream.BeforeFirst, Limit: 10})
		return first(err,
			same("ids", ids, []stream.ID{at(0, 1), at(5000, 2), at(5000, 3), at(5000, 4), at(5000, 5), at(5001, 6), at(5001, 7)}),
			same("payloads", payloads(p), numbered(7)),
			chain(stream.BeforeFirst, p.Entries),
		)
	})
}

func foreignEntries(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		foreign := func(id stream.ID) error { return s.AddForeign("a", id) }
		if err := foreign(stream.ID{MS: 5, N: 5}); err != nil { // before the first of ours
			return err
		}
		if b, err := l[0].Bounds(ctx, "a"); err != nil || b != (stream.Bounds{}) {
			return fmt.Errorf("with one foreign entry: bounds %+v, %v", b, err)
		}
		var ids []stream.ID
		for i := range 4 {
			id, err := publish(ctx, l[i%2], "a", fmt.Sprint(i+1))
			if err != nil {
				return err
			}
			ids = append(ids, id...)
			// The store's own next, which takes the id of our own next; then one beyond that.
			if err := first(foreign(stream.ID{}), foreign(stream.ID{MS: id[0].MS, N: id[0].N + 5})); err != nil {
				return err
			}
			for _, l := range l {
				s.SetClock(l, epoch+uint64(i)*10)
			}
		}
		p, err := l[0].Read(ctx, stream.Query{Channel: "a", After: stream.BeforeFirst, Limit: 100})
		if err := first(err,
			same("payloads", payloads(p), numbered(4)),
			chain(stream.BeforeFirst, p.Entries),
			same("last", p.Last, ids[3]),
			same("more", p.More, false),
			same("life", p.Life, ids[0].MS),
		); err != nil {
			return err
		}
		p, err = l[0].Read(ctx, stream.Query{Channel: "a", Before: stream.MaxID, Limit: 2})
		b, err2 := l[1].Bounds(ctx, "a")
		return first(err, err2,
			same("the newest two", payloads(p), []string{"3", "4"}),
			same("more", p.More, true),
			same("bounds", b, stream.Bounds{First: ids[0], Last: ids[3], Length: 4}),
			tells(ctx, l[0], map[stream.ID]string{
				ids[0]: "[2 3 4]", ids[1]: "[3 4]", ids[2]: "[4]", ids[3]: "[]", stream.BeforeFirst: "[1 2 3 4]",
			}),
		)
	})
}

// manyForeignEntries: more of them in a row than any page holds.
func manyForeignEntries(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ms := uint64(epoch)
		flood := func() error {
			for range 300 {
				ms++
				if err := s.AddForeign("a", stream.ID{MS: ms}); err != nil {
					return err
				}
			}
			ms++ // ours comes behind them
			return nil
		}
		if err := flood(); err != nil {
			return err
		}
		one, err := publish(ctx, l[0], "a", "1")
		if err := first(err, flood()); err != nil {
			return err
		}
		two, err := publish(ctx, l[1], "a", "2")
		if err := first(err, flood()); err != nil {
			return err
		}
		for _, q := range []stream.Query{{After: stream.BeforeFirst}, {After: one[0]}, {After: two[0]}, {Before: stream.MaxID}, {Before: two[0]}} {
			q.Channel, q.Limit = "a", 1
			var want string
			switch {
			case q.After == stream.BeforeFirst:
				want = "1-1+"
			case q.After == one[0]:
				want = "2-2"
			case q.After == two[0]:
				want = "-"
			case q.Before == stream.MaxID:
				want = "2-2+"
			default:
				want = "1-1"
			}
			p, err := l[0].Read(ctx, q)
			if err := first(err, same(fmt.Sprintf("%+v", q), span(p), want), same("last", p.Last, two[0])); err != nil {
				return err
			}
		}
		// Without the small key the newest of ours is found behind them all.
		if err := s.LoseState("a"); err != nil {
			return err
		}
		s.Forget(l[0], "a")
		three, err := publish(ctx, l[0], "a", "3")
		if err != nil {
			return err
		}
		return first(
			same("the next n", three[0].N, 3),
			tells(ctx, l[0], map[stream.ID]string{stream.BeforeFirst: "[1 2 3]", one[0]: "[2 3]", two[0]: "[3]"}),
		)
	})
}

func foreignAhead(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", "1")
		if err := first(err, s.AddForeign("a", stream.ID{MS: epoch + 1000})); err != nil {
			return err
		}
		more, err := publish(ctx, l[1], "a", "2", "3")
		if err != nil {
			return err
		}
		at := func(ms, n uint64) stream.ID { return stream.ID{MS: epoch + ms, N: n} }
		if err := first(
			same("ids", append(ids, more...), []stream.ID{at(0, 1), at(1001, 2), at(1001, 3)}),
			tells(ctx, l[0], map[stream.ID]string{ids[0]: "[2 3]", more[0]: "[3]", more[1]: "[]"}),
		); err != nil {
			return err
		}
		// A life that begins behind one begins there.
		if err := s.AddForeign("b", stream.ID{MS: epoch + 1000}); err != nil {
			return err
		}
		begun, err := publish(ctx, l[0], "b", "1")
		if err != nil {
			return err
		}
		p, err := l[0].Read(ctx, stream.Query{Channel: "b", Limit: 10})
		return first(err,
			same("the first", begun, []stream.ID{at(1001, 1)}),
			same("its entry", p.Entries, []stream.Entry{{ID: at(1001, 1), Life: epoch + 1001, Payload: "1"}}),
		)
	})
}

func removedByOthers(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", numbered(6)...)
		if err := first(err, s.Remove("a", ids[2]), s.Remove("a", ids[5])); err != nil {
			return err
		}
		if err := tells(ctx, l[1], map[stream.ID]string{
			ids[0]: "[2 4 5]", // the hole is found where it is
			ids[1]: "trimmed 1 [4 5]",
			ids[2]: "[4 5]",
			ids[4]: "trimmed 1 []",
			ids[5]: "[]",
		}); err != nil {
			return err
		}
		if err := s.LoseState("a"); err != nil { // nor is the removed end's n given twice
			return err
		}
		s.Forget(l[0], "a")
		more, err := publish(ctx, l[0], "a", "7")
		if err != nil {
			return err
		}
		return first(
			same("the next n", more[0].N, 7),
			tells(ctx, l[0], map[stream.ID]string{ids[4]: "trimmed 1 [7]", ids[5]: "[7]"}),
		)
	})
}

func idempotencyStateLost(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		m := stream.Message{Channel: "a", Payload: "1", IdempotencyKey: "k"}
		a, err := l[0].Append(ctx, m)
		if err := first(err, s.LoseState("a")); err != nil {
			return err
		}
		b, err := l[1].Append(ctx, m)
		return first(err, same("the repeat", b, stream.Appended{ID: a.ID, Replayed: true}))
	})
}
