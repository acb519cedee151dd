package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"rejoin/stream"
)

var appendChecks = []Check{
	{Name: "the first ids", Run: firstIDs},
	{Name: "dense ids under 32 writers on 2 clients", Run: denseIDs},
	{Name: "payloads, events and keys come back", Run: payloadsComeBack},
	{Name: "known", Run: known},
	{Name: "idempotency", Run: idempotency},
	{Name: "idempotency under 50 at once", Run: idempotencyAtOnce},
	{Name: "idempotency ends with its time", Run: idempotencyEnds},
}

// firstIDs: n from 1, each entry with the ms before it and its life's first.
func firstIDs(ctx context.Context, new New) error {
	return with(new, Options{}, 1, func(_ Store, l []stream.Log) error {
		before := l[0].Now()
		ids, err := publish(ctx, l[0], "a", "1", "2", "3")
		if err != nil {
			return err
		}
		other, err := publish(ctx, l[0], "b", "1")
		if err != nil {
			return err
		}
		p, err := l[0].Read(ctx, stream.Query{Channel: "a", Limit: 10})
		if err != nil {
			return err
		}
		if d := ids[0].Time().Sub(before); d < -5*time.Second || d > 5*time.Second {
			return fmt.Errorf("the first id %v is %v away from the log's clock", ids[0], d)
		}
		var prev uint64
		for i, e := range p.Entries {
			if e.ID != ids[i] || e.ID.N != uint64(i+1) || e.Prev != prev || e.Life != ids[0].MS {
				return fmt.Errorf("entry %d is %+v, answered %v, the one before at %d", i, e, ids[i], prev)
			}
			prev = e.ID.MS
		}
		return first(
			same("payloads", payloads(p), []string{"1", "2", "3"}),
			same("n of another channel", other[0].N, 1),
		)
	})
}

func denseIDs(ctx context.Context, new New) error {
	const writers, each = 32, 25
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		var (
			mu  sync.Mutex
			wg  sync.WaitGroup
			ids = map[stream.ID]string{}
			bad error
		)
		for w := range writers {
			wg.Go(func() {
				last := stream.ID{}
				for i := range each {
					payload := fmt.Sprintf("%d.%d", w, i)
					a, err := l[w%len(l)].Append(ctx, stream.Message{Channel: "a", Payload: payload})
					if err == nil && !last.Less(a.ID) {
						err = fmt.Errorf("writer %d was answered %v and then %v", w, last, a.ID)
					}
					last = a.ID
					mu.Lock()
					ids[a.ID] = payload
					bad = first(bad, err)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if bad != nil {
			return bad
		}
		p, err := l[0].Read(ctx, stream.Query{Channel: "a", After: stream.BeforeFirst, Limit: writers*each + 1})
		if err != nil {
			return err
		}
		if err := same("entries", len(p.Entries), writers*each); err != nil {
			return err
		}
		pos := stream.BeforeFirst
		for i := range p.Entries {
			e := &p.Entries[i]
			if e.ID.N != uint64(i+1) || !stream.Follows(pos, e) {
				return fmt.Errorf("entry %d is %v with p %d, after %v", i, e.ID, e.Prev, pos)
			}
			if ids[e.ID] != e.Payload {
				return fmt.Errorf("%v holds %q, answered for %q", e.ID, e.Payload, ids[e.ID])
			}
			pos = e.ID
		}
		return same("last", p.Last, pos)
	})
}

func payloadsComeBack(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		texts := []string{
			"", " ", "\n", "\r\n", "a\r\nb\n", "\x00", "\u2028\u2029", "€😀", `{"a":1}`, "p", "b", "0",
			strings.Repeat("x", 1<<20), strings.Repeat("\n", 1<<20), strings.Repeat("😀", 1<<18),
		}
		for i, text := range texts {
			m := stream.Message{Channel: "a", Payload: text}
			if i%2 == 1 {
				m.Event, m.Key = fmt.Sprint("event ", i), fmt.Sprint("key\n", i)
			}
			a, err := l[0].Append(ctx, m)
			if err != nil {
				return err
			}
			p, err := l[1].Read(ctx, stream.Query{Channel: "a", Before: stream.MaxID, Limit: 1})
			if err != nil {
				return err
			}
			if len(p.Entries) != 1 || p.Entries[0].ID != a.ID {
				return fmt.Errorf("text %d: the newest of %d entries is not %v", i, len(p.Entries), a.ID)
			}
			if e := p.Entries[0]; e.Payload != m.Payload || e.Event != m.Event || e.Key != m.Key {
				return fmt.Errorf("text %d, %.20q of %d bytes, came back as %.20q of %d, event %q, key %q", i, text, len(text), e.Payload, len(e.Payload), e.Event, e.Key)
			}
		}
		return nil
	})
}

// known: at least what was answered to this client, and what it has read.
func known(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		if err := same("known of a channel never used", l[0].Known("a"), stream.ID{}); err != nil {
			return err
		}
		ids, err := publish(ctx, l[0], "a", "1", "2")
		if err != nil {
			return err
		}
		if k := l[0].Known("a"); k.Less(ids[1]) {
			return fmt.Errorf("answered %v, known is %v", ids[1], k)
		}
		if _, err := l[1].Read(ctx, stream.Query{Channel: "a", After: ids[0], Limit: 1}); err != nil {
			return err
		}
		if k := l[1].Known("a"); k.Less(ids[1]) {
			return fmt.Errorf("read %v, known is %v", ids[1], k)
		}
		return same("known of another channel", l[0].Known("b"), stream.ID{})
	})
}

func idempotency(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		m := stream.Message{Channel: "a", Payload: "pay", Event: "ev", Key: "k", IdempotencyKey: "once, 100% {x}\n"}
		a, err := l[0].Append(ctx, m)
		if err != nil {
			return err
		}
		if a.Replayed {
			return errors.New("the first append says it is a replay")
		}
		if _, err := publish(ctx, l[0], "a", "between"); err != nil {
			return err
		}
		for i, l := range l {
			b, err := l.Append(ctx, m)
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("the repeat on client %d", i), b, stream.Appended{ID: a.ID, Replayed: true}); err != nil {
				return err
			}
		}
		for _, change := range []func(*stream.Message){
			func(m *stream.Message) { m.Payload = "other" },
			func(m *stream.Message) { m.Event = "other" },
			func(m *stream.Message) { m.Key = "other" },
			func(m *stream.Message) { m.Payload, m.Event = "paye", "v" }, // the same letters in a row
			func(m *stream.Message) { m.Event, m.Key = "", "evk" },
			func(m *stream.Message) { m.Event, m.Key = "k", "ev" },
		} {
			other := m
			change(&other)
			if b, err := l[1].Append(ctx, other); !errors.Is(err, stream.ErrConflict) {
				return fmt.Errorf("%+v with the key of %+v: %+v, %v, want ErrConflict", other, m, b, err)
			}
		}
		// The key is of one channel, and one key is not another.
		elsewhere, another, none := m, m, m
		elsewhere.Channel, another.IdempotencyKey, none.IdempotencyKey = "b", "twice", ""
		for _, m := range []stream.Message{elsewhere, another, none} {
			if b, err := l[1].Append(ctx, m); err != nil || b.Replayed {
				return fmt.Errorf("%+v: %+v, %v, want it appended", m, b, err)
			}
		}
		if err := l[0].Delete(ctx, "a"); err != nil {
			return err
		}
		b, err := l[1].Append(ctx, m)
		if err != nil {
			return err
		}
		bounds, err := l[1].Bounds(ctx, "a")
		return first(err,
			same("the repeat after a delete", b, stream.Appended{ID: a.ID, Replayed: true}),
			same("messages appended", bounds.Last.N, 4),
			same("messages left", bounds.Length, 0),
		)
	})
}

func idempotencyAtOnce(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		const rounds, callers = 4, 50
		for round := range rounds {
			m := stream.Message{Channel: "a", Payload: "x", IdempotencyKey: fmt.Sprint("round ", round)}
			answers := make([]stream.Appended, callers)
			errs := make([]error, callers)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() { answers[i], errs[i] = l[i%len(l)].Append(ctx, m) })
			}
			wg.Wait()
			appended := 0
			for i, a := range answers {
				if errs[i] != nil {
					return errs[i]
				}
				if a.ID != answers[0].ID {
					return fmt.Errorf("one was answered %v, another %v", answers[0].ID, a.ID)
				}
				if !a.Replayed {
					appended++
				}
			}
			bounds, err := l[0].Bounds(ctx, "a")
			if err := first(err, same("appended", appended, 1), same("in the log", bounds.Length, round+1)); err != nil {
				return err
			}
		}
		return nil
	})
}

func idempotencyEnds(ctx context.Context, new New) error {
	const ttl = 150 * time.Millisecond
	return with(new, Options{IdempotencyTTL: ttl}, 1, func(_ Store, l []stream.Log) error {
		m := stream.Message{Channel: "a", Payload: "x", IdempotencyKey: "k"}
		start := time.Now()
		a, err := l[0].Append(ctx, m)
		if err != nil {
			return err
		}
		return eventually(ctx, func() (bool, error) {
			b, err := l[0].Append(ctx, m)
			switch d := time.Since(start); {
			case err != nil:
				return false, err
			case b.Replayed && b.ID != a.ID:
				return false, fmt.Errorf("the repeat is answered %v, first %v", b.ID, a.ID)
			case !b.Replayed && d < ttl-5*time.Millisecond:
				return false, fmt.Errorf("appended anew after %v, within the %v", d, ttl)
			case !b.Replayed && b.ID.N != 2:
				return false, fmt.Errorf("appended anew as %v", b.ID)
			}
			return !b.Replayed, nil
		})
	})
}

// eventually asks every few milliseconds until it is so, or the context ends.
func eventually(ctx context.Context, so func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it never came: %w", context.Cause(ctx))
		}
	}
}

// chain says where entries are not one unbroken chain behind pos.
func chain(pos stream.ID, entries []stream.Entry) error {
	for e := range slices.Values(entries) {
		if !stream.Follows(pos, &e) {
			return fmt.Errorf("%v with p %d does not follow %v", e.ID, e.Prev, pos)
		}
		pos = e.ID
	}
	return nil
}
