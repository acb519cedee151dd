package redislog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/logtest"
	"rejoin/stream/redislog"
)

// TestMutants takes each thing out of the append's source once.
// Holds G20.
func TestMutants(t *testing.T) {
	logtest.Mutants(t, newStores(t), redislog.Script(), equivalent, scriptChecks...)
}

// equivalent are the mutants that nobody could tell from the append, each with
// the reason.
var equivalent = map[string]string{
	"if f.p and f.b and tonumber(f.b) then: without f.b": "tonumber of no b is nil, too",
	"jms = math.max(jms, ms): only ms":                   "an id below the journal's last is refused and repeated above it",
	"jms = math.max(p, ms): only p":                      "the journal is begun anew: any id is taken, and sessions begin anew by the audit",
	"jms = math.max(p, ms): only ms":                     "the same",
	"redis.call('XTRIM', KEYS[1], 'MINID', '~', text(math.max(0, clock - ARGV[9]))): only clock - ARGV[9]": "an age is less than the time since 1970",

	"size = math.max(bytes, size - math.floor(size / 16)): only bytes":                        "size is a hint: how many entries one read asks for",
	"size = math.max(bytes, size - math.floor(size / 16)): only size - math.floor(size / 16)": "the same",
	"size = math.max(bytes, size - math.floor(size / 16)): taken out":                         "the same",
}

// scriptChecks look at what the append does to Redis itself: what the contract
// does not show, and only Redis has.
var scriptChecks = []logtest.Check{
	{Name: "wrong types leave nothing behind", Run: wrongTypes},
	{Name: "foreign entries that look like ours", Run: almostOurs},
	{Name: "what is old is trimmed", Run: oldIsTrimmed},
	{Name: "every key ends by itself", Run: keysEnd},
	{Name: "the journal's end is kept", Run: journalEnd},
	{Name: "foreign entries in the journal", Run: foreignInJournal},
	{Name: "the journal lost, its end kept", Run: journalLost},
	{Name: "the journal full for good", Run: journalFull},
	{Name: "the journal wiped and regrown", Run: journalRegrown},
}

func TestScript(t *testing.T) {
	newStore := newStores(t)
	for _, c := range scriptChecks {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Run(t.Context(), newStore); err != nil {
				t.Error(err)
			}
		})
	}
}

// inStore runs f with a store and one client of it.
func inStore(newStore logtest.New, o logtest.Options, f func(s *store, l *redislog.Log) error) error {
	opened, err := newStore(o)
	if err != nil {
		return err
	}
	s := opened.(*store)
	l, err := s.Open()
	if err != nil {
		return err
	}
	return errors.Join(f(s, l.(*redislog.Log)), l.Close(), s.Close())
}

// appendTo appends one message and says how it went.
func appendTo(ctx context.Context, l *redislog.Log, channel string) (stream.ID, error) {
	a, err := l.Append(ctx, stream.Message{Channel: channel, Payload: "x", IdempotencyKey: "k"})
	return a.ID, err
}

// contents are all of the store's keys as Redis would dump them.
func (s *store) contents(ctx context.Context) (map[string]string, error) {
	keys, err := s.client.Keys(ctx, s.options.Prefix+":*").Result()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, key := range keys {
		if all[key], err = s.client.Dump(ctx, key).Result(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// wrongTypes puts a list, and where a text is wanted any other text, in the place
// of each key, of a channel that is new and of one in use.
func wrongTypes(ctx context.Context, newStore logtest.New) error {
	for _, used := range []bool{false, true} {
		err := inStore(newStore, logtest.Options{}, func(s *store, l *redislog.Log) error {
			if used {
				if _, err := l.Append(ctx, stream.Message{Channel: "a"}); err != nil {
					return err
				}
			}
			texts := map[string]bool{l.SmallKey("a"): true}
			for _, key := range []string{l.StreamKey("a"), l.SmallKey("a"), l.IdempotencyKey("a", "k"), l.JournalKey("a"), l.JournalEndKey("a")} {
				for _, text := range []bool{false, true} {
					if text && !texts[key] {
						continue
					}
					before, err := s.client.Dump(ctx, key).Result()
					if used && key != l.IdempotencyKey("a", "k") && err != nil {
						return err
					}
					hurt := []any{"RPUSH", key, "x"}
					if text {
						hurt = []any{"SET", key, "x"}
					}
					if err := errors.Join(s.do("DEL", key), s.do(hurt...)); err != nil {
						return err
					}
					was, err := s.contents(ctx)
					if err != nil {
						return err
					}
					if id, err := appendTo(ctx, l, "a"); !errors.Is(err, stream.ErrBroken) || !strings.Contains(err.Error(), "WRONGTYPE") {
						return fmt.Errorf("with %v: %v, %v, want ErrBroken by WRONGTYPE", hurt, id, err)
					}
					is, err := s.contents(ctx)
					if err != nil {
						return err
					}
					if fmt.Sprint(is) != fmt.Sprint(was) {
						return fmt.Errorf("with %v: the refused append changed something", hurt)
					}
					if err := s.do("DEL", key); err != nil {
						return err
					}
					if before != "" {
						if err := s.do("RESTORE", key, 0, before); err != nil {
							return err
						}
					}
				}
			}
			_, err := appendTo(ctx, l, "a")
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// almostOurs: an entry is ours with p and b, and nothing less.
func almostOurs(ctx context.Context, newStore logtest.New) error {
	for _, fields := range [][]any{
		{"p", "5"}, {"b", "5"}, {"p", "5", "b", "x"}, {"p", "5", "b", ""},
	} {
		err := inStore(newStore, logtest.Options{}, func(s *store, l *redislog.Log) error {
			first, err := appendTo(ctx, l, "a")
			if err != nil {
				return err
			}
			foreign := append([]any{"XADD", l.StreamKey("a"), fmt.Sprintf("%d-0", first.MS+10)}, fields...)
			if err := errors.Join(s.do(foreign...), s.do("DEL", l.SmallKey("a"))); err != nil {
				return err
			}
			l.Forget("a")
			a, err := l.Append(ctx, stream.Message{Channel: "a", Payload: "y"})
			if err != nil || a.ID.N != 2 {
				return fmt.Errorf("behind a foreign entry %v: %v, %v, want n = 2", fields, a.ID, err)
			}
			p, err := l.Read(ctx, stream.Query{Channel: "a", After: first, Limit: 10})
			if err != nil || len(p.Entries) != 1 || !stream.Follows(first, &p.Entries[0]) || p.Entries[0].Life != first.MS {
				return fmt.Errorf("behind a foreign entry %v: %+v, %v", fields, p, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// oldIsTrimmed: what is too old to be served leaves the memory by the next appends.
func oldIsTrimmed(ctx context.Context, newStore logtest.New) error {
	return inStore(newStore, logtest.Options{}, func(s *store, l *redislog.Log) error {
		l.SetClock(1000) // 1970
		for i := range 301 {
			if i == 300 {
				l.SetClock(0)
			}
			if _, err := l.Append(ctx, stream.Message{Channel: "a"}); err != nil {
				return err
			}
		}
		n, err := s.client.XLen(ctx, l.StreamKey("a")).Result()
		if err != nil || n > 200 { // whole nodes of the stream go
			return fmt.Errorf("%d entries are stored, %v, want 1 and a rest", n, err)
		}
		return nil
	})
}

// keysEnd: nothing of a channel stays for ever.
func keysEnd(ctx context.Context, newStore logtest.New) error {
	r := stream.Retention{MaxAge: time.Hour, ChannelTTL: 5 * time.Hour}
	return inStore(newStore, logtest.Options{Retention: r, IdempotencyTTL: time.Minute}, func(s *store, l *redislog.Log) error {
		if _, err := appendTo(ctx, l, "a"); err != nil {
			return err
		}
		for key, want := range map[string]time.Duration{
			l.StreamKey("a"): r.MaxAge, l.SmallKey("a"): r.ChannelTTL, l.IdempotencyKey("a", "k"): time.Minute,
		} {
			ttl, err := s.client.PTTL(ctx, key).Result()
			if err != nil || ttl < want-10*time.Second || ttl > want+10*time.Minute {
				return fmt.Errorf("%s ends in %v, %v, want about %v", key, ttl, err, want)
			}
		}
		return nil
	})
}

// journalEnd: the small key of the journal is its last id.
func journalEnd(ctx context.Context, newStore logtest.New) error {
	return inStore(newStore, logtest.Options{}, func(s *store, l *redislog.Log) error {
		for range 3 {
			if _, err := l.Append(ctx, stream.Message{Channel: "a"}); err != nil {
				return err
			}
			end, err := s.client.Get(ctx, l.JournalEndKey("a")).Result()
			if err != nil {
				return fmt.Errorf("the journal's end: %w", err)
			}
			entries, err := s.client.XRevRangeN(ctx, l.JournalKey("a"), "+", "-", 1).Result()
			if err != nil || len(entries) != 1 || entries[0].ID != end {
				return fmt.Errorf("the journal's end is %s, its newest entry %v, %v", end, entries, err)
			}
		}
		return nil
	})
}

// hearsOn opens a session, hurts the journal and appends: the session must hear
// that append and live.
func hearsOn(ctx context.Context, newStore logtest.New, hurt func(s *store, l *redislog.Log) error) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	return inStore(newStore, logtest.Options{}, func(s *store, l *redislog.Log) error {
		if _, err := l.Append(ctx, stream.Message{Channel: "a"}); err != nil {
			return err
		}
		session, err := l.Listen(ctx, l.Part("a"))
		if err != nil {
			return err
		}
		defer session.Close()
		for range 2 { // and once more behind it
			if err := hurt(s, l); err != nil {
				return err
			}
			a, err := l.Append(ctx, stream.Message{Channel: "a"})
			if err != nil {
				return err
			}
			for heard := false; !heard; {
				marks, err := session.Wait(ctx)
				if err != nil {
					return fmt.Errorf("%v was not heard: %w", a.ID, err)
				}
				for _, m := range marks {
					heard = heard || m.ID == a.ID
				}
			}
		}
		return nil
	})
}

func foreignInJournal(ctx context.Context, newStore logtest.New) error {
	ahead := int64(0)
	return hearsOn(ctx, newStore, func(s *store, l *redislog.Log) error {
		ahead += 100_000
		return s.do("XADD", l.JournalKey("a"), fmt.Sprint(time.Now().UnixMilli()+ahead), "foreign", "entry")
	})
}

func journalLost(ctx context.Context, newStore logtest.New) error {
	return hearsOn(ctx, newStore, func(s *store, l *redislog.Log) error { return s.do("DEL", l.JournalKey("a")) })
}

// journalFull: a foreign entry at the end of all ids must not stop the appends;
// who listens anew hears them.
func journalFull(ctx context.Context, newStore logtest.New) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	for _, last := range []stream.ID{stream.MaxID, {MS: stream.MaxID.MS}} {
		err := inStore(newStore, logtest.Options{}, func(s *store, l *redislog.Log) error {
			if _, err := l.Append(ctx, stream.Message{Channel: "a"}); err != nil {
				return err
			}
			if err := s.do("XADD", l.JournalKey("a"), last.String(), "foreign", "entry"); err != nil {
				return err
			}
			if _, err := l.Append(ctx, stream.Message{Channel: "a"}); err != nil {
				return err
			}
			n, err := s.client.XLen(ctx, l.JournalKey("a")).Result()
			if err != nil || n != 1 {
				return fmt.Errorf("the journal begun anew behind %v has %d entries, %v", last, n, err)
			}
			session, err := l.Listen(ctx, l.Part("a"))
			if err != nil {
				return err
			}
			defer session.Close()
			a, err := l.Append(ctx, stream.Message{Channel: "a"})
			if err != nil {
				return err
			}
			marks, err := session.Wait(ctx)
			if err != nil || marks[len(marks)-1].ID != a.ID {
				return fmt.Errorf("heard %v, %v, want %v", marks, err, a.ID)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// journalRegrown: the journal and its end are lost and regrow past where a
// session is, before it looks again. It must not go on as if nothing was.
func journalRegrown(ctx context.Context, newStore logtest.New) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	return inStore(newStore, logtest.Options{}, func(s *store, l *redislog.Log) error {
		session, err := l.Listen(ctx, l.Part("a"))
		if err != nil {
			return err
		}
		defer session.Close()
		all := map[stream.ID]bool{}
		heard := func(id stream.ID) (bool, error) {
			for !all[id] {
				marks, err := session.Wait(ctx)
				if err != nil {
					return false, ctx.Err() // over, as it may be, but not stuck
				}
				for _, m := range marks {
					all[m.ID] = true
				}
			}
			return true, nil
		}
		a, err := l.Append(ctx, stream.Message{Channel: "a"})
		if err != nil {
			return err
		}
		if ok, err := heard(a.ID); !ok {
			return fmt.Errorf("the first append was not heard: %w", err)
		}
		for l.Now().Before(a.ID.Time().Add(3 * time.Millisecond)) { // no log is lost within its last millisecond
			if _, err := l.Bounds(ctx, "a"); err != nil {
				return err
			}
		}
		if err := s.do("DEL", l.JournalKey("a"), l.JournalEndKey("a")); err != nil {
			return err
		}
		var ids []stream.ID
		for range 3 {
			a, err := l.Append(ctx, stream.Message{Channel: "a"})
			if err != nil {
				return err
			}
			ids = append(ids, a.ID)
		}
		for _, id := range ids {
			ok, err := heard(id)
			if err != nil {
				return fmt.Errorf("%v was neither heard nor is the session over: %w", id, err)
			}
			if !ok {
				return nil
			}
		}
		return nil
	})
}
