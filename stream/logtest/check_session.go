package logtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rejoin/stream"
)

var sessionChecks = []Check{
	{Name: "a session hears every append and delete", Run: sessionHears},
	{Name: "a session hears from its first moment", Run: sessionHearsAtOnce},
	{Name: "a session reads", Run: sessionReads},
	{Name: "a session ends", Run: sessionEnds},
}

// listen opens a session for each part of the log.
func listen(ctx context.Context, l stream.Log) (sessions []stream.Session, err error) {
	for part := range l.Parts() {
		s, err := l.Listen(ctx, part)
		if err != nil {
			closeAll(sessions)
			return nil, err
		}
		sessions = append(sessions, s)
	}
	return sessions, nil
}

func closeAll(sessions []stream.Session) {
	for _, s := range sessions {
		s.Close()
	}
}

// heard waits in all sessions until every mark wanted came, by channel, id and
// kind. It returns the sizes announced.
func heard(ctx context.Context, sessions []stream.Session, want map[stream.Mark]bool) (bytes map[stream.Mark]int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	bytes = map[stream.Mark]int{}
	for _, s := range sessions {
		wg.Go(func() {
			for {
				marks, e := s.Wait(ctx)
				mu.Lock()
				for _, m := range marks {
					size := m.Bytes
					m.Bytes = 0
					bytes[m] = size
					delete(want, m)
				}
				done := len(want) == 0
				if e != nil && !done {
					err = e
				}
				mu.Unlock()
				if done || e != nil {
					cancel() // the other parts have nothing more to hear
					return
				}
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(want) > 0 {
		return bytes, fmt.Errorf("%d marks were not heard, one of them %v: %w", len(want), anyKey(want), err)
	}
	return bytes, nil
}

func anyKey[K comparable, V any](m map[K]V) (k K) {
	for k = range m {
		break
	}
	return k
}

func sessionHears(ctx context.Context, new New) error {
	const writers, each = 8, 50
	return with(new, Options{}, 3, func(_ Store, l []stream.Log) error {
		sessions, err := listen(ctx, l[0])
		if err != nil {
			return err
		}
		defer closeAll(sessions)
		var (
			mu   sync.Mutex
			wg   sync.WaitGroup
			bad  error
			want = map[stream.Mark]bool{}
		)
		for w := range writers {
			wg.Go(func() {
				l, channel := l[w%len(l)], fmt.Sprint("c", w/2) // two on each channel
				for range each {
					a, err := l.Append(ctx, stream.Message{Channel: channel, Payload: "12345"})
					mu.Lock()
					want[stream.Mark{Channel: channel, ID: a.ID}] = true
					bad = first(bad, err)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if bad != nil {
			return bad
		}
		for c := range writers / 2 {
			channel := fmt.Sprint("c", c)
			b, err := l[1].Bounds(ctx, channel)
			if err := first(err, l[2].Delete(ctx, channel)); err != nil {
				return err
			}
			want[stream.Mark{Channel: channel, ID: b.Last, Deleted: true}] = true
		}
		bytes, err := heard(ctx, sessions, want)
		if err != nil {
			return err
		}
		for m, size := range bytes {
			if !m.Deleted && size != 0 && (size < 5 || size > 5+2*stream.EntryOverhead) {
				return fmt.Errorf("%v is announced with %d bytes", m, size)
			}
		}
		for _, s := range sessions {
			if d := time.Since(s.Heard()); d > 10*time.Second {
				return fmt.Errorf("a session that lives heard nothing for %v", d)
			}
		}
		return nil
	})
}

// sessionHearsAtOnce: register, append, heard; while others append all the time.
func sessionHearsAtOnce(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(stop)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = l[1].Append(ctx, stream.Message{Channel: "noise"})
				}
			}
		})
		for i := range 20 {
			channel := fmt.Sprint("c", i)
			s, err := l[0].Listen(ctx, l[0].Part(channel))
			if err != nil {
				return err
			}
			ids, err := publish(ctx, l[1], channel, "x")
			if err == nil {
				_, err = heard(ctx, []stream.Session{s}, map[stream.Mark]bool{{Channel: channel, ID: ids[0]}: true})
			}
			s.Close()
			if err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		return nil
	})
}

func sessionReads(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		ids := map[string][]stream.ID{}
		channels := []string{"a", "b", "c", "d"}
		for i, c := range channels {
			var err error
			if ids[c], err = publish(ctx, l[1], c, numbered(i)...); err != nil {
				return err
			}
		}
		sessions, err := listen(ctx, l[0])
		if err != nil {
			return err
		}
		defer closeAll(sessions)
		// Someone waits meanwhile, as always in life.
		var wg sync.WaitGroup
		defer wg.Wait()
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		for _, s := range sessions {
			wg.Go(func() { _, _ = s.Wait(waiting) })
		}
		for part, s := range sessions {
			var queries []stream.Query
			var want []string
			for i, c := range channels {
				if l[0].Part(c) != part {
					continue
				}
				for _, follow := range []bool{false, true} {
					queries = append(queries, stream.Query{Channel: c, After: stream.BeforeFirst, Limit: 2, Follow: follow})
					want = append(want, fmt.Sprint(c, numbered(min(i, 2)), i > 2))
				}
			}
			pages, err := s.Read(ctx, queries)
			if err != nil {
				return err
			}
			var got []string
			for i, p := range pages {
				got = append(got, fmt.Sprint(p.Channel, payloads(p), p.More))
				if p.Err != nil {
					return p.Err
				}
				if n := len(ids[p.Channel]); !queries[i].Follow && n > 0 && p.Last != ids[p.Channel][n-1] {
					return fmt.Errorf("%s: last is %v", p.Channel, p.Last)
				}
			}
			if err := same("pages", got, want); err != nil {
				return err
			}
			if pages, err := s.Read(ctx, nil); err != nil || len(pages) != 0 {
				return fmt.Errorf("no queries: %v, %v", pages, err)
			}
		}
		return nil
	})
}

func sessionEnds(ctx context.Context, new New) error {
	return with(new, Options{}, 2, func(_ Store, l []stream.Log) error {
		ended := func(what string, s stream.Session, end func() error) error {
			over := make(chan error, 1)
			go func() {
				for {
					if _, err := s.Wait(ctx); err != nil {
						over <- err
						return
					}
				}
			}()
			if err := end(); err != nil {
				return err
			}
			select {
			case <-over:
			case <-time.After(10 * time.Second):
				return fmt.Errorf("%s: Wait goes on", what)
			}
			if _, err := s.Wait(ctx); err == nil {
				return fmt.Errorf("%s: Wait after the end is no error", what)
			}
			if _, err := s.Read(ctx, []stream.Query{{Channel: "a", Limit: 1}}); err == nil {
				return fmt.Errorf("%s: Read after the end is no error", what)
			}
			s.Close() // again: harmless
			return nil
		}
		s, err := l[0].Listen(ctx, 0)
		if err != nil {
			return err
		}
		if err := ended("closed", s, func() error { s.Close(); return nil }); err != nil {
			return err
		}
		// The log lives on.
		if _, err := publish(ctx, l[0], "a", "1"); err != nil {
			return err
		}
		if s, err = l[1].Listen(ctx, 0); err != nil {
			return err
		}
		if err := ended("the log closed", s, l[1].Close); err != nil {
			return err
		}
		if _, err := l[1].Append(ctx, stream.Message{Channel: "a"}); !errors.Is(err, stream.ErrClosed) {
			return fmt.Errorf("append to a closed log: %v, want ErrClosed", err)
		}
		if _, err := l[1].Listen(ctx, 0); !errors.Is(err, stream.ErrClosed) {
			return fmt.Errorf("listen to a closed log: %v, want ErrClosed", err)
		}
		return nil
	})
}
