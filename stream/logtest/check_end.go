package logtest

import (
	"context"
	"errors"
	"fmt"

	"rejoin/stream"
)

var endChecks = []Check{
	{Name: "an end alone", Run: endAlone},
	{Name: "an end with a message", Run: endWithMessage},
	{Name: "a deleted channel stays ended", Run: endDeleted},
	{Name: "an end outlives a lost small key", Run: endStateLost, Hurts: true},
	{Name: "a message from before a lost small key is no end", Run: noEndStateLost, Hurts: true},
}

// end ends a channel by an entry of its own.
func end(ctx context.Context, l stream.Log, channel string) (stream.Appended, error) {
	return l.Append(ctx, stream.Message{Channel: channel, End: stream.EndAlone})
}

// closed checks that a channel is ended at id, for reads and for appends.
func closed(ctx context.Context, l stream.Log, channel string, id stream.ID) error {
	for _, m := range []stream.Message{
		{Channel: channel, Payload: "late"},
		{Channel: channel, Payload: "late", End: stream.EndMessage},
		{Channel: channel, Payload: "late", IdempotencyKey: "late"},
	} {
		if a, err := l.Append(ctx, m); !errors.Is(err, stream.ErrEnded) {
			return fmt.Errorf("%+v after the end: %+v, %v, want ErrEnded", m, a, err)
		}
	}
	again, err1 := end(ctx, l, channel)
	// Both ways to read: what is above the end, and what is below everything.
	up, err2 := l.Read(ctx, stream.Query{Channel: channel, After: id, Limit: 10})
	down, err3 := l.Read(ctx, stream.Query{Channel: channel, Before: stream.MaxID, Limit: 10})
	return first(err1, err2, err3,
		same("ended again", again, stream.Appended{ID: id, Replayed: true}),
		same("behind the end", len(up.Entries), 0),
		same("ended, after", up.Ended, true), same("last, after", up.Last, id),
		same("ended, before", down.Ended, true), same("last, before", down.Last, id),
	)
}

func endAlone(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		s, err := l[1].Listen(ctx, l[1].Part("a"))
		if err != nil {
			return err
		}
		defer s.Close()
		ids, err := publish(ctx, l[0], "a", "1")
		if err != nil {
			return err
		}
		p, err := l[1].Read(ctx, stream.Query{Channel: "a", Limit: 10})
		if err := first(err, same("ended before its end", p.Ended, false), same("no end", p.Entries[0].End, stream.NotEnd)); err != nil {
			return err
		}
		// Of what is not the channel nothing counts.
		a, err := l[0].Append(ctx, stream.Message{Channel: "a", End: stream.EndAlone, Payload: "p", Event: "e", Key: "k", IdempotencyKey: "i"})
		if err := first(err, same("replayed", a.Replayed, false), same("the end's n", a.ID.N, 2)); err != nil {
			return err
		}
		p, err = l[1].Read(ctx, stream.Query{Channel: "a", After: ids[0], Limit: 10})
		entry := stream.Entry{ID: a.ID, Prev: ids[0].MS, Life: ids[0].MS, End: stream.EndAlone}
		if err := first(err,
			same("the end", p.Entries, []stream.Entry{entry}), same("ended", p.Ended, true),
			closed(ctx, l[1], "a", a.ID), closed(ctx, l[0], "a", a.ID),
		); err != nil {
			return err
		}
		// Ends, too, are announced.
		for heard := false; !heard; {
			marks, err := s.Wait(ctx)
			if err != nil {
				return err
			}
			for _, m := range marks {
				heard = heard || m == stream.Mark{Channel: "a", ID: a.ID, Bytes: stream.EntryOverhead}
			}
		}
		// Another channel lives, and one that never had a message can end.
		other, err1 := publish(ctx, l[0], "b", "1")
		never, err2 := end(ctx, l[0], "c")
		if err := first(err1, err2, same("another channel's n", other[0].N, 1), same("an end alone", never.ID.N, 1)); err != nil {
			return err
		}
		p, err = l[0].Read(ctx, stream.Query{Channel: "c", After: stream.BeforeFirst, Limit: 10})
		return first(err, chain(stream.BeforeFirst, p.Entries), closed(ctx, l[1], "c", never.ID))
	})
}

func endWithMessage(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		m := stream.Message{Channel: "a", Payload: "bye", Event: "e", Key: "k", IdempotencyKey: "i", End: stream.EndMessage}
		a, err := l[0].Append(ctx, m)
		if err != nil {
			return err
		}
		p, err := l[1].Read(ctx, stream.Query{Channel: "a", Limit: 10})
		entry := stream.Entry{ID: a.ID, Life: a.ID.MS, Payload: "bye", Event: "e", Key: "k", End: stream.EndMessage}
		if err := first(err, same("the end", p.Entries, []stream.Entry{entry}), closed(ctx, l[1], "a", a.ID)); err != nil {
			return err
		}
		// A repeat is answered as the first was, though the channel has ended
		// since; without the end it is another message.
		again, err := l[1].Append(ctx, m)
		if err := first(err, same("repeated", again, stream.Appended{ID: a.ID, Replayed: true})); err != nil {
			return err
		}
		for _, other := range []stream.Message{
			{Channel: "a", Payload: "other", IdempotencyKey: "i", End: stream.EndMessage},
			{Channel: "a", Payload: "bye", Event: "e", Key: "k", IdempotencyKey: "i"},
		} {
			if b, err := l[1].Append(ctx, other); !errors.Is(err, stream.ErrConflict) {
				return fmt.Errorf("%+v with the key of %+v: %+v, %v, want ErrConflict", other, m, b, err)
			}
		}
		return nil
	})
}

func endDeleted(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		if _, err := publish(ctx, l[0], "a", "1", "2"); err != nil {
			return err
		}
		a, err := end(ctx, l[0], "a")
		if err := first(err, l[1].Delete(ctx, "a"), l[0].Delete(ctx, "a")); err != nil {
			return err
		}
		p, err := l[1].Read(ctx, stream.Query{Channel: "a", Limit: 10})
		return first(err, same("entries", len(p.Entries), 0), closed(ctx, l[1], "a", a.ID))
	})
}

// endStateLost: the newest entry says that it is the end, whatever others wrote
// behind it.
func endStateLost(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		for _, kind := range []stream.End{stream.EndAlone, stream.EndMessage} {
			channel := fmt.Sprint("ends", kind)
			if _, err := publish(ctx, l[0], channel, "1"); err != nil {
				return err
			}
			a, err := l[0].Append(ctx, stream.Message{Channel: channel, End: kind})
			if err := first(err, s.LoseState(channel), closed(ctx, l[1], channel, a.ID)); err != nil {
				return err
			}
			// A foreign id that would do as the next of ours.
			if err := first(s.AddForeign(channel, stream.ID{MS: a.ID.MS, N: a.ID.N + 1}), s.LoseState(channel), closed(ctx, l[1], channel, a.ID)); err != nil {
				return err
			}
			// It is written down again by a delete.
			if err := first(l[0].Delete(ctx, channel), closed(ctx, l[1], channel, a.ID)); err != nil {
				return err
			}
		}
		return nil
	})
}

func noEndStateLost(ctx context.Context, new New) error {
	return hurt(new, Options{}, func(s Faults, l []stream.Log) error {
		if _, err := publish(ctx, l[0], "a", "1"); err != nil {
			return err
		}
		if err := first(s.LoseState("a"), l[1].Delete(ctx, "a")); err != nil {
			return err
		}
		p, err := l[1].Read(ctx, stream.Query{Channel: "a", After: stream.Earliest, Limit: 10})
		if err := first(err, same("ended", p.Ended, false)); err != nil {
			return err
		}
		ids, err := publish(ctx, l[1], "a", "2")
		return first(err, same("goes on", ids[0].N, 2))
	})
}
