package logtest

import (
	"context"
	"fmt"
	"time"

	"rejoin/stream"
)

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
