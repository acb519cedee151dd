package delivery

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/redislog"
	"rejoin/stream/redislog/redistest"
)

// onRedis is a broker on a real Redis.
func onRedis(t *testing.T, r *redistest.Server, o Options) (*Broker, *redislog.Log) {
	t.Helper()
	l, err := redislog.Open(t.Context(), redislog.Options{URL: r.URL()})
	if err != nil {
		t.Fatal(err)
	}
	b := New(l, o)
	t.Cleanup(func() { b.Close(); l.Close() })
	return b, l
}

// until waits for what other processes have to do.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func (r *reader) saw(last string) func() bool {
	return func() bool {
		told := r.told()
		return len(told) > 0 && told[len(told)-1] == last
	}
}

// reads is how many commands that read a stream were run during f.
func reads(r *redistest.Server, f func()) int {
	count := func() (n int) {
		stats := r.Do("INFO", "commandstats").(string)
		for _, m := range regexp.MustCompile(`cmdstat_(xread|xrange|xrevrange):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
			calls, _ := strconv.Atoi(m[2])
			n += calls
		}
		return n
	}
	before := count()
	f()
	return count() - before
}

// Commands grow neither with the subscribers of a channel nor with the channels
// that are quiet.
func TestCommandsDoNotGrow(t *testing.T) {
	r := redistest.Start(t)
	b, l := onRedis(t, r, Options{})
	const messages = 100
	measure := func(subscribers, idle int) int {
		var rs []*reader
		for i := range idle {
			rs = append(rs, read(t, b, Channel{Name: fmt.Sprint("idle", i)}))
		}
		busy := fmt.Sprintf("busy%d-%d", subscribers, idle)
		for range subscribers {
			rs = append(rs, read(t, b, Channel{Name: busy}))
		}
		for _, rd := range rs {
			until(t, "live", rd.saw("live"))
		}
		n := reads(r, func() {
			for i := range messages {
				publish(t, l, busy, fmt.Sprint(i+1))
				until(t, "arrival", func() bool {
					last := rs[len(rs)-1].payloads()
					return len(last) == i+1
				})
			}
		})
		for _, rd := range rs {
			rd.close()
		}
		return n
	}
	one, many, beside := measure(1, 0), measure(300, 0), measure(1, 2000)
	t.Logf("reading commands for %d messages: 1 subscriber %d, 300 subscribers %d, beside 2,000 quiet channels %d", messages, one, many, beside)
	// Each message costs a turn of the journal reader and one read of its
	// channel; the rest is the journal reader's own turns while nothing comes.
	for what, n := range map[string]int{"300 subscribers": many, "2,000 quiet channels": beside} {
		if n > one+one/4+10 {
			t.Errorf("%s cost %d reading commands, one subscriber alone %d", what, n, one)
		}
	}
}

// Redis is killed and comes back with what it had: readers are told stale and
// live, have every message once, and what was published by another server while
// this one was deaf.
func TestRedisKilledAndBack(t *testing.T) {
	r := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	b, l := onRedis(t, r, Options{})
	rd := read(t, b, Channel{Name: "a"})
	until(t, "live", rd.saw("live"))
	publishN(t, l, "a", 1, 10)
	until(t, "ten", func() bool { return len(rd.payloads()) == 10 })
	r.Kill()
	began := time.Now()
	until(t, "stale", rd.saw("stale"))
	if d := time.Since(began); d > 1500*time.Millisecond {
		t.Errorf("stale after %v", d)
	}
	r.Restart()
	back := time.Now()
	other, err := redislog.Open(t.Context(), redislog.Options{URL: r.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	publishN(t, other, "a", 11, 5)
	until(t, "live again", rd.saw("live"))
	if d := time.Since(back); d > time.Second {
		t.Errorf("live %v after the log answered", d)
	}
	until(t, "fifteen", func() bool { return len(rd.payloads()) == 15 })
	w := &world{T: t}
	w.equal("had", rd.payloads(), numbers(1, 15))
	rd.close()
}

// Redis hangs without closing anything.
func TestRedisFrozen(t *testing.T) {
	r := redistest.Start(t)
	b, l := onRedis(t, r, Options{})
	rd := read(t, b, Channel{Name: "a"})
	until(t, "live", rd.saw("live"))
	publish(t, l, "a", "1")
	until(t, "one", func() bool { return len(rd.payloads()) == 1 })
	r.Freeze()
	began := time.Now()
	until(t, "stale", rd.saw("stale"))
	if d := time.Since(began); d > 1500*time.Millisecond {
		t.Errorf("stale after %v", d)
	}
	time.Sleep(10*time.Second - time.Since(began)) // the length of the freeze is the scene
	r.Thaw()
	thawed := time.Now()
	until(t, "live again", rd.saw("live"))
	if d := time.Since(thawed); d > time.Second {
		t.Errorf("live %v after the log answered", d)
	}
	until(t, "publishing again", func() bool {
		_, err := l.Append(t.Context(), stream.Message{Channel: "a", Payload: "2"})
		return err == nil
	})
	until(t, "two", func() bool { return len(rd.payloads()) == 2 })
	rd.close()
}

// The log is lost, or goes back to what it was: readers that are connected and
// readers that come later are told, also when the new counter has passed theirs.
func TestRedisLosesItsPast(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(r *redistest.Server, snapshot []byte)
		// regrown is how many are published after the loss, before the reader
		// that comes later does.
		regrown int
	}{
		{"FLUSHALL", func(r *redistest.Server, _ []byte) { r.Do("FLUSHALL") }, 3},
		{"FLUSHALL and regrown past", func(r *redistest.Server, _ []byte) { r.Do("FLUSHALL") }, 50},
		{"older snapshot", func(r *redistest.Server, snap []byte) { r.RestartFrom(snap) }, 2},
		{"older snapshot and regrown past", func(r *redistest.Server, snap []byte) { r.RestartFrom(snap) }, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := redistest.Start(t)
			b, l := onRedis(t, r, Options{})
			publishN(t, l, "a", 1, 10)
			snapshot := r.Save()
			ids := publishN(t, l, "a", 11, 20)
			last := ids[len(ids)-1]
			rd := read(t, b, Channel{Name: "a", Start: StartAfter(ids[len(ids)-2])})
			until(t, "live", rd.saw("live"))

			c.lose(r, snapshot)
			// Another server, that knows nothing of what was lost.
			fresh, err := redislog.Open(t.Context(), redislog.Options{URL: r.URL()})
			if err != nil {
				t.Fatal(err)
			}
			defer fresh.Close()
			publishN(t, fresh, "a", 1000, c.regrown)
			end := fmt.Sprint(1000 + c.regrown - 1)
			until(t, "connected reader at the end", func() bool {
				p := rd.payloads()
				return len(p) > 0 && p[len(p)-1] == end
			})
			until(t, "connected reader live", func() bool {
				told := rd.told()
				return told[len(told)-1] == "live" || told[len(told)-1] == "*"
			})
			later := read(t, b, Channel{Name: "a", Start: StartAfter(last)})
			until(t, "later reader live", later.saw("live"))
			for name, x := range map[string]*reader{"connected": rd, "later": later} {
				resets := 0
				for _, it := range x.snapshot() {
					if it.Kind == Gap && it.Gap.Reason == stream.Reset {
						resets++
					}
				}
				if resets != 1 {
					t.Errorf("%s was told %d resets: %v", name, resets, x.told())
				}
				p := x.payloads()
				if len(p) < c.regrown || p[len(p)-1] != end {
					t.Errorf("%s has not all that was regrown: %v", name, brief(p))
				}
			}
			rd.close()
			later.close()
		})
	}
}
