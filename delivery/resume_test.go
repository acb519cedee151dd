package delivery

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

// world is a log and a broker inside a synctest bubble.
type world struct {
	*testing.T
	log *shaky
	b   *Broker
}

func inBubble(t *testing.T, keep stream.Retention, o Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if keep.MaxMessages == 0 {
			keep = stream.DefaultRetention
		}
		ret := func(string) stream.Retention { return keep }
		l := newShaky(memlog.Options{Retention: ret})
		o.Retention = ret
		w := &world{T: t, log: l, b: New(l, o)}
		f(w)
		w.b.Close()
		l.Close()
		synctest.Wait()
	})
}

func (w *world) equal(what string, got, want []string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s:\n got %q\nwant %q", what, brief(got), brief(want))
	}
}

func brief(s []string) []string {
	if len(s) > 40 {
		return append(append(slices.Clone(s[:20]), fmt.Sprintf("… %d …", len(s)-40)), s[len(s)-20:]...)
	}
	return s
}

// Holds G31.
func TestLiveFromTheRequest(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		publishN(t, w.log, "a", 1, 3)
		time.Sleep(time.Second)
		cold := read(t, w.b, Channel{Name: "a"})
		publish(t, w.log, "a", "4") // before the broker looked
		synctest.Wait()
		hot := read(t, w.b, Channel{Name: "a"})
		synctest.Wait()
		publish(t, w.log, "a", "5")
		synctest.Wait()
		w.equal("cold", cold.payloads(), []string{"4", "5"})
		w.equal("hot", hot.payloads(), []string{"5"})
		w.equal("hot told", hot.told(), []string{"ready +0", "live", "*"})
		cold.close()
		hot.close()

		w.log.cut() // nothing is known here of what others publish
		publishN(t, w.log.log(), "b", 1, 3)
		time.Sleep(10 * time.Millisecond)
		away := read(t, w.b, Channel{Name: "b"})
		time.Sleep(10 * time.Millisecond)
		publish(t, w.log.log(), "b", "4")
		w.log.mend()
		time.Sleep(time.Second)
		w.equal("away", away.payloads(), []string{"4"})
		away.close()
	})
}

// Holds G32.
func TestNeverUsedChannel(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		r := read(t, w.b, Channel{Name: "a"})
		synctest.Wait()
		it := r.snapshot()[0]
		if it.Kind != Ready || it.Ready[0].Cursor != stream.BeforeFirst {
			t.Fatalf("first item %+v", it)
		}
		r.close()
		publishN(t, w.log, "a", 1, 2)
		synctest.Wait()
		r = read(t, w.b, Channel{Name: "a", Start: StartAfter(stream.BeforeFirst)})
		synctest.Wait()
		w.equal("told", r.told(), []string{"ready +2", "replaying", "*", "live"})
		w.equal("had", r.payloads(), []string{"1", "2"})
		r.close()
	})
}

// A cursor at every distance from the head, with a tail that can hold all and
// one that can hold next to nothing.
// Holds G18, G49.
func TestEveryDistance(t *testing.T) {
	for _, tail := range []int{0, 2000} {
		t.Run(fmt.Sprint("tail ", tail), func(t *testing.T) {
			const total, kept = 450, 300
			inBubble(t, stream.Retention{MaxMessages: kept, MaxAge: time.Hour, ChannelTTL: time.Hour}, Options{TailBytes: tail}, func(w *world) {
				ids := publishN(t, w.log, "a", 1, total)
				var rs []*reader
				for _, id := range ids {
					rs = append(rs, read(t, w.b, Channel{Name: "a", Start: StartAfter(id)}))
				}
				synctest.Wait()
				publish(t, w.log, "a", fmt.Sprint(total+1))
				synctest.Wait()
				for i, r := range rs {
					had := i + 1 // the number of its cursor
					if missed := total - kept - had; missed > 0 {
						w.equal(fmt.Sprint("trimmed told at ", had), r.told(),
							[]string{fmt.Sprint("ready +", kept), "replaying", fmt.Sprint("gap trimmed ", missed), "*", "live", "*"})
						w.equal(fmt.Sprint("had ", had), r.payloads(), numbers(total-kept+1, kept+1))
					} else {
						want := []string{fmt.Sprint("ready +", total-had), "replaying", "*", "live", "*"}
						if had == total {
							want = []string{"ready +0", "live", "*"}
						}
						w.equal(fmt.Sprint("told at ", had), r.told(), want)
						w.equal(fmt.Sprint("had ", had), r.payloads(), numbers(had+1, total-had+1))
					}
					r.close()
				}
			})
		})
	}
}

// Holds G33, G49.
func TestStarts(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		publishN(t, w.log, "a", 1, 5)
		time.Sleep(time.Minute)
		mid := time.Now()
		publishN(t, w.log, "a", 6, 5)
		time.Sleep(time.Minute)
		for round := range 2 { // cold, then warm
			for _, c := range []struct {
				name  string
				start Start
				want  []string
				told  []string
			}{
				{"live", Start{}, nil, []string{"ready +0", "live"}},
				{"earliest", StartAfter(stream.Earliest), numbers(1, 10), []string{"ready +10", "replaying", "*", "live"}},
				{"rewind 3", StartRewind(3), numbers(8, 3), []string{"ready +3", "replaying", "*", "live"}},
				{"rewind 10", StartRewind(10), numbers(1, 10), []string{"ready +10", "replaying", "*", "live"}},
				{"rewind 500", StartRewind(500), numbers(1, 10), []string{"ready +10", "replaying", "*", "live"}},
				{"since", StartSince(mid), numbers(6, 5), []string{"ready +5", "replaying", "*", "live"}},
				{"since ever", StartSince(time.Unix(0, 0)), numbers(1, 10), []string{"ready +10", "replaying", "*", "live"}},
				{"since now", StartSince(time.Now()), nil, []string{"ready +0", "live"}},
				{"lost", StartLost(), numbers(1, 10), []string{"ready +10", "replaying", "gap reset 0", "*", "live"}},
				{"ahead", StartAfter(stream.ID{MS: 1 << 50, N: 99}), numbers(1, 10), []string{"ready +10", "replaying", "gap reset 0", "*", "live"}},
			} {
				r := read(t, w.b, Channel{Name: "a", Start: c.start})
				synctest.Wait()
				w.equal(fmt.Sprint(c.name, " had, round ", round), r.payloads(), c.want)
				w.equal(fmt.Sprint(c.name, " told, round ", round), r.told(), c.told)
				r.close()
			}
		}
	})
}

// Holds G35.
func TestThreeChannelsOneCursor(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		names := []string{"a", "b", "c"}
		cursor := "" // as a client has it
		starts := func() (chans []Channel) {
			c, err := stream.ParseCursor(cursor)
			for _, name := range names {
				start := Start{}
				if cursor != "" {
					pos, ok := c.Position(name)
					if err != nil || !ok {
						t.Fatalf("cursor %q has no place of %s: %v", cursor, name, err)
					}
					start = StartAfter(pos)
				}
				chans = append(chans, Channel{Name: name, Start: start})
			}
			return chans
		}
		n := map[string]int{}
		had := map[string][]string{}
		for round := range 30 {
			r := readBy(t, w.b, 1+round*50, starts()...)
			for i := range round {
				name := names[(i*i+round)%3]
				n[name]++
				publish(t, w.log, name, fmt.Sprint(n[name]))
				if i == round/2 {
					synctest.Wait()
				}
			}
			if round%2 == 0 {
				synctest.Wait()
			}
			p := stream.NewPositions(names)
			for name, pos := range r.close() {
				p.Set(name, pos)
			}
			cursor = p.String()
			for _, it := range r.snapshot() {
				if it.Kind == Message {
					had[it.Channel] = append(had[it.Channel], it.Record.Payload)
				}
			}
		}
		r := read(t, w.b, starts()...)
		synctest.Wait()
		r.close()
		for _, it := range r.snapshot() {
			if it.Kind == Message {
				had[it.Channel] = append(had[it.Channel], it.Record.Payload)
			}
		}
		for _, name := range names {
			w.equal(name, had[name], numbers(1, n[name]))
		}
	})
}

// What was deleted is served to nobody, though a tail may hold it in memory.
// Holds G26, G29.
func TestDeleteIsToldToThoseBehind(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		ids := publishN(t, w.log, "a", 1, 2)
		atEnd := read(t, w.b, Channel{Name: "a"})
		synctest.Wait()
		ids = append(ids, publishN(t, w.log, "a", 3, 8)...)
		synctest.Wait()
		if err := w.log.Delete(w.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		behind := read(t, w.b, Channel{Name: "a", Start: StartAfter(ids[3])})
		synctest.Wait()
		publish(t, w.log, "a", "11")
		synctest.Wait()
		late := read(t, w.b, Channel{Name: "a", Start: StartAfter(ids[3])})
		synctest.Wait()
		w.equal("at end", atEnd.told(), []string{"ready +0", "live", "*"})
		w.equal("behind", behind.told(), []string{"ready +0", "gap trimmed 6 end", "live", "*"})
		w.equal("late", late.told(), []string{"ready +1", "replaying", "gap trimmed 6", "*", "live"})
		atEnd.close()
		behind.close()
		late.close()
	})
}
