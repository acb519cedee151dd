package logtest

import (
	"context"
	"fmt"
	"time"

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

func stateLost(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", "1", "2", "3")
		if err := first(err, s.LoseState("a")); err != nil {
			return err
		}
		b, err := l[1].Bounds(ctx, "a")
		if err := first(err,
			same("bounds", b, stream.Bounds{First: ids[0], Last: ids[2], Length: 3}),
			tells(ctx, l[1], map[stream.ID]string{ids[0]: "[2 3]", ids[2]: "[]", stream.BeforeFirst: "[1 2 3]"}),
		); err != nil {
			return err
		}
		s.Forget(l[1], "a")
		more, err := publish(ctx, l[1], "a", "4")
		if err != nil {
			return err
		}
		p, err := l[0].Read(ctx, stream.Query{Channel: "a", After: ids[2], Limit: 10})
		return first(err,
			same("the next n", more[0].N, 4),
			chain(ids[2], p.Entries),
			same("the life", p.Entries[0].Life, ids[0].MS),
		)
	})
}

// stateLostAfterDelete: the stream is there and empty; its counter goes on.
func stateLostAfterDelete(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", "1", "2", "3")
		if err := first(err, l[0].Delete(ctx, "a"), s.LoseState("a")); err != nil {
			return err
		}
		s.Forget(l[1], "a")
		more, err := publish(ctx, l[1], "a", "4")
		if err != nil {
			return err
		}
		return first(
			same("the next n", more[0].N, 4),
			tells(ctx, l[1], map[stream.ID]string{ids[2]: "[4]", more[0]: "[]"}),
		)
	})
}

func messagesLost(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", "1", "2", "3")
		if err := first(err, s.LoseMessages("a")); err != nil {
			return err
		}
		if err := tells(ctx, l[1], map[stream.ID]string{ids[0]: "trimmed 2 []", ids[2]: "[]", stream.BeforeFirst: "trimmed 3 []"}); err != nil {
			return err
		}
		s.Forget(l[1], "a")
		more, err := publish(ctx, l[1], "a", "4")
		if err != nil {
			return err
		}
		return first(
			same("the next n", more[0].N, 4),
			tells(ctx, l[1], map[stream.ID]string{ids[0]: "trimmed 2 [4]", ids[2]: "[4]", stream.BeforeFirst: "trimmed 3 [4]"}),
		)
	})
}

func wipedNoticed(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", "1", "2", "3")
		if err := first(err, s.Wipe("a")); err != nil {
			return err
		}
		if err := tells(ctx, l[1], map[stream.ID]string{ids[0]: "reset []", ids[2]: "reset []", stream.BeforeFirst: "[]"}); err != nil {
			return err
		}
		more, err := publish(ctx, l[0], "a", "4") // it knows
		if err != nil {
			return err
		}
		later, err := publish(ctx, l[1], "a", "5") // it does not, or of before
		if err != nil {
			return err
		}
		p, err := l[1].Read(ctx, stream.Query{Channel: "a", Limit: 10})
		if err != nil {
			return err
		}
		return first(
			same("entries", payloads(p), []string{"4", "5"}),
			same("the new life", p.Entries[0], stream.Entry{ID: stream.ID{MS: epoch + 1, N: 4}, Life: epoch + 1, Payload: "4"}),
			same("goes on", later[0], stream.ID{MS: epoch + 1, N: 5}),
			tells(ctx, l[1], map[stream.ID]string{
				ids[0]: "reset [4 5]", ids[2]: "reset [4 5]", more[0]: "[5]", stream.BeforeFirst: "reset [4 5]",
			}),
		)
	})
}

func wipedUnnoticed(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", "1", "2", "3")
		if err := first(err, s.Wipe("a")); err != nil {
			return err
		}
		for _, l := range l {
			s.Forget(l, "a")
			s.SetClock(l, epoch+10)
		}
		if err := same("known once forgotten", l[0].Known("a"), stream.ID{}); err != nil {
			return err
		}
		more, err := publish(ctx, l[0], "a", "4", "5", "6", "7", "8")
		if err != nil {
			return err
		}
		return first(
			same("the first n", more[0].N, 1),
			tells(ctx, l[1], map[stream.ID]string{
				ids[0]: "reset [4 5 6 7 8]", ids[2]: "reset [4 5 6 7 8]", more[0]: "[5 6 7 8]",
			}),
		)
	})
}

func rolledBack(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		ids, err := publish(ctx, l[0], "a", "1", "2")
		if err != nil {
			return err
		}
		restore, err := s.Save("a")
		if err != nil {
			return err
		}
		lost, err := publish(ctx, l[0], "a", "3", "4", "5")
		if err := first(err, restore()); err != nil {
			return err
		}
		if err := tells(ctx, l[1], map[stream.ID]string{ids[0]: "[2]", ids[1]: "[]", lost[2]: "reset [1 2]"}); err != nil {
			return err
		}
		more, err := publish(ctx, l[0], "a", "6")
		if err != nil {
			return err
		}
		if err := first(
			same("the new life", more[0], stream.ID{MS: epoch + 1, N: 6}),
			tells(ctx, l[1], map[stream.ID]string{
				ids[0]: "[2 6]", ids[1]: "reset [6]", lost[2]: "reset [1 2 6]", more[0]: "[]",
			}),
		); err != nil {
			return err
		}
		// Again, and this time appended to by one that has forgotten: the
		// lost messages' readers are told by the chain alone.
		if err := restore(); err != nil {
			return err
		}
		s.Forget(l[1], "a")
		for _, l := range l {
			s.SetClock(l, epoch+10)
		}
		more, err = publish(ctx, l[1], "a", "7", "8", "9", "10", "11")
		if err != nil {
			return err
		}
		return first(
			same("the next n", more[0].N, 3),
			tells(ctx, l[1], map[stream.ID]string{lost[0]: "reset [1 2 7 8 9 10 11]", lost[2]: "reset [1 2 7 8 9 10 11]"}),
		)
	})
}

// noticedLate: servers that have forgotten go on first; one that knows more finds
// its id above the log's end, in ms alone or in n alone.
func noticedLate(ctx context.Context, new New) error {
	at := func(ms, n uint64) stream.ID { return stream.ID{MS: epoch + ms, N: n} }
	for _, tt := range []struct {
		lost, regrown    int    // messages
		lostAt, regrowAt uint64 // clocks; in the end it is at 0 again
		then             func(s Faults) error
		want             stream.ID
	}{
		{1, 6, 10, 0, nil, at(11, 9)},  // more has come since, by a slower clock
		{6, 1, 10, 20, nil, at(21, 9)}, // less has come since, by a faster one
		{6, 1, 10, 20, func(s Faults) error { return s.LoseMessages("a") }, at(21, 9)},
		{6, 1, 10, 20, func(s Faults) error { return s.AddForeign("a", at(99, 0)) }, at(100, 9)},
	} {
		err := hurt(new, Options{}, func(s Faults, l []stream.Log) error {
			clocks := func(ms uint64) {
				for _, l := range l {
					s.SetClock(l, epoch+ms)
				}
			}
			ids, err := publish(ctx, l[0], "a", "1", "2")
			if err != nil {
				return err
			}
			restore, err := s.Save("a")
			if err != nil {
				return err
			}
			clocks(tt.lostAt)
			lost, err := publish(ctx, l[0], "a", numbered(tt.lost)...)
			if err := first(err, restore()); err != nil {
				return err
			}
			clocks(tt.regrowAt)
			since, err := publish(ctx, l[1], "a", numbered(tt.regrown)...)
			if err != nil {
				return err
			}
			clocks(0)
			if tt.then != nil {
				if err := tt.then(s); err != nil {
					return err
				}
			}
			id, err := publish(ctx, l[0], "a", "new")
			if err != nil {
				return err
			}
			p, err := l[1].Read(ctx, stream.Query{Channel: "a", After: since[tt.regrown-1], Limit: 10})
			want := []stream.Entry{{ID: tt.want, Life: tt.want.MS, Payload: "new"}}
			if err := first(err, same("the new life", id, []stream.ID{tt.want}), same("its entry", p.Entries, want)); err != nil {
				return err
			}
			if tt.then != nil {
				return nil
			}
			all := fmt.Sprint(append(append([]string{"1", "2"}, numbered(tt.regrown)...), "new"))
			return tells(ctx, l[1], map[stream.ID]string{
				since[tt.regrown-1]: "reset [new]", lost[tt.lost-1]: "reset " + all, ids[0]: "[" + all[3:],
			})
		})
		if err != nil {
			return fmt.Errorf("%+v: %w", tt.want, err)
		}
	}
	return nil
}

// knownFarAhead: a server whose known id is from a clock that was wrong by days
// must not take the channel there with it.
func knownFarAhead(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		day := uint64((24 * time.Hour).Milliseconds())
		s.SetClock(l[0], epoch+day)
		if _, err := publish(ctx, l[0], "a", "1", "2"); err != nil {
			return err
		}
		if err := s.Wipe("a"); err != nil {
			return err
		}
		s.SetClock(l[0], epoch)
		id, err := publish(ctx, l[0], "a", "3")
		return first(err, same("a new life, a day back", id, []stream.ID{{MS: epoch, N: 3}}))
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
