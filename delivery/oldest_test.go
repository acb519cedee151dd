package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

// gathered is what a subscription read by Oldest has told.
type gathered struct {
	t     *testing.T
	sub   *Subscription
	items []Item
	pos   map[string]stream.ID
	more  bool
	done  bool
	at    Standing
}

func gather(t *testing.T, b *Broker, chans ...Channel) *gathered {
	g := &gathered{t: t, sub: b.Subscribe(chans), pos: map[string]stream.ID{}}
	t.Cleanup(g.sub.Close)
	return g
}

// settled is what is told without room for a message, once the log has
// answered all that was asked.
func (g *gathered) settled(told string) {
	g.t.Helper()
	var got []string
	for range 5 {
		got = append(got, strings.Fields(g.next(0))...)
		synctest.Wait()
	}
	if slices.Sort(got); strings.Join(got, " ") != told {
		g.t.Errorf("told in any order\n%s\nwant\n%s", strings.Join(got, " "), told)
	}
}

// next takes at most so many messages and returns what was told, in words.
func (g *gathered) next(most int) string {
	g.t.Helper()
	b, at := g.sub.Oldest(most)
	g.more, g.done, g.at = b.More, b.Done, at
	var told []string
	messages := 0
	for _, it := range b.Items {
		switch it.Kind {
		case Ready:
			if len(it.Ready) != 1 || it.Ready[0].Channel != it.Channel {
				g.t.Errorf("ready of %q is %+v", it.Channel, it.Ready)
			}
			g.pos[it.Channel] = it.Ready[0].Cursor
			told = append(told, "+"+it.Channel)
		case Message:
			messages++
			g.pos[it.Channel] = it.Pos
			told = append(told, it.Record.Payload)
		case Gap:
			g.pos[it.Channel] = it.Pos
			told = append(told, fmt.Sprint("gap:", it.Channel, ":", it.Gap.Missed))
		case End:
			g.pos[it.Channel] = it.Pos
			told = append(told, "end:"+it.Channel)
		case Error:
			told = append(told, "error:"+it.Channel)
		default:
			g.t.Errorf("told %+v", it)
		}
	}
	if messages > most {
		g.t.Errorf("%d messages, at most %d were asked for", messages, most)
	}
	return strings.Join(told, " ")
}

func (g *gathered) want(most int, told string) {
	g.t.Helper()
	if got := g.next(most); got != told {
		g.t.Errorf("Oldest(%d) tells\n%s\nwant\n%s", most, got, told)
	}
}

// Whatever the limits, whatever the distance, from a tail or from pages: every
// message once, and no message before an older one of another channel.
func TestOldestFirstAcrossChannels(t *testing.T) {
	for _, tail := range []int{0, 3000} {
		t.Run(fmt.Sprint("tail ", tail), func(t *testing.T) {
			keep := stream.Retention{MaxMessages: 1 << 20, MaxAge: time.Hour, ChannelTTL: time.Hour}
			inBubble(t, keep, Options{TailBytes: tail}, func(w *world) {
				t := w.T
				const total = 900
				var want []string
				for i := range total {
					p := fmt.Sprint(i)
					publish(t, w.log, string(rune('a'+i*i%7%3)), p)
					want = append(want, p)
					time.Sleep(time.Millisecond)
				}
				for _, most := range []int{1, 3, 64, 101, 1000} {
					g := gather(t, w.b, Channel{"a", StartAfter(stream.BeforeFirst)}, Channel{"b", StartAfter(stream.Earliest)}, Channel{"c", StartRewind(total)})
					var got []string
					for {
						for _, word := range strings.Fields(g.next(most)) {
							if word[0] != '+' {
								got = append(got, word)
							}
						}
						if !g.more && g.at == AtEnd {
							break
						}
						synctest.Wait() // for the next page
					}
					w.equal(fmt.Sprint("by ", most), got, want)
					g.sub.Close()
				}
			})
		})
	}
}

func TestOldestTellsAGapWithItsMessage(t *testing.T) {
	keep := stream.Retention{MaxMessages: 2, MaxAge: time.Hour, ChannelTTL: time.Hour}
	inBubble(t, keep, Options{}, func(w *world) {
		t := w.T
		publishN(t, w.log, "a", 1, 5)
		time.Sleep(time.Millisecond)
		publishN(t, w.log, "b", 1, 1)
		g := gather(t, w.b, Channel{"a", StartAfter(stream.BeforeFirst)}, Channel{"b", StartAfter(stream.BeforeFirst)})
		g.settled("+a +b") // no room for the message, nor for the gap
		if !g.more || g.at != Behind || g.pos["a"] != stream.BeforeFirst {
			t.Errorf("%+v", g)
		}
		g.want(1, "gap:a:3 4")
		g.want(9, "5 1")
		if g.more || g.at != AtEnd {
			t.Errorf("%+v", g)
		}
		// With nothing behind it a gap takes no room.
		publish(t, w.log, "a", "6")
		g.sub.Close()
		if err := w.log.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		g = gather(t, w.b, Channel{"a", StartAfter(g.pos["a"])})
		g.settled("+a gap:a:1")
		if g.at != AtEnd || g.pos["a"].N != 6 {
			t.Errorf("%+v", g)
		}
	})
}

func TestOldestEnds(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		t := w.T
		publish(t, w.log, "a", "1")
		end := func(m stream.Message) stream.ID {
			a, err := w.log.Append(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			return a.ID
		}
		a := end(stream.Message{Channel: "a", End: stream.EndAlone})
		time.Sleep(time.Millisecond)
		b := end(stream.Message{Channel: "b", Payload: "bye", End: stream.EndMessage})
		both := []Channel{{"a", StartAfter(stream.BeforeFirst)}, {"b", StartAfter(stream.BeforeFirst)}}
		g := gather(t, w.b, both...)
		g.settled("+a +b")
		g.want(1, "1")
		g.want(1, "end:a bye end:b") // an end alone is no message
		if !g.done || g.pos["a"] != a || g.pos["b"] != b {
			t.Errorf("%+v", g)
		}
		g.want(1, "")
		if !g.done {
			t.Error("more to come after the end of all")
		}
		g = gather(t, w.b, Channel{"a", StartAfter(a)}, Channel{"c", StartAfter(stream.BeforeFirst)})
		g.settled("+a +c end:a")
		if g.done || g.at != AtEnd {
			t.Errorf("%+v", g)
		}
	})
}

// split is a log of two parts: channels from n on are in the second.
type split struct {
	stream.Log // the first
	second     *shaky
}

func (l split) Parts() int { return 2 }

func (l split) Part(channel string) int {
	if channel < "n" {
		return 0
	}
	return 1
}

func (l split) Known(channel string) stream.ID {
	if l.Part(channel) == 0 {
		return l.Log.Known(channel)
	}
	return l.second.Known(channel)
}

func (l split) Listen(ctx context.Context, part int) (stream.Session, error) {
	if part == 0 {
		return l.Log.Listen(ctx, part)
	}
	return l.second.Listen(ctx, part)
}

// A part of the log that is away holds up the channels of no other, and its
// silence is not taken for an end.
func TestOldestWithAPartAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := split{newShaky(memlog.Options{}), newShaky(memlog.Options{})}
		b := New(l, Options{})
		defer func() {
			b.Close()
			l.Close()
			l.second.Close()
		}()
		publish(t, l.Log, "a", "a1")
		z := publish(t, l.second, "z", "z1")
		synctest.Wait()
		l.second.cut()
		g := gather(t, b, Channel{"a", StartAfter(stream.BeforeFirst)}, Channel{"z", StartAfter(stream.BeforeFirst)})
		g.settled("+a") // what z has may be older
		if g.at != Behind {
			t.Errorf("stands at %v", g.at)
		}
		time.Sleep(1500 * time.Millisecond)
		g.want(9, "a1")
		if g.at != Away || g.more {
			t.Errorf("%+v", g)
		}
		publish(t, l.Log, "a", "a2")
		synctest.Wait()
		<-g.sub.Wake()
		g.want(9, "a2")
		if _, known := g.pos["z"]; known {
			t.Errorf("z is placed at %v", g.pos["z"])
		}
		l.second.mend()
		time.Sleep(time.Second)
		<-g.sub.Wake()
		g.settled("+z")
		g.want(9, "z1")
		if g.at != AtEnd || g.pos["z"] != z {
			t.Errorf("%+v", g)
		}
	})
}

// A subscription that is to move is told nothing and ends at its moment.
func TestOldestInADrain(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		t := w.T
		publish(t, w.log, "a", "1")
		g := gather(t, w.b, Channel{"a", StartAfter(stream.BeforeFirst)})
		g.settled("+a")
		g.want(9, "1")
		drained := make(chan error)
		go func() { drained <- w.b.Drain(t.Context(), 10*time.Second) }()
		synctest.Wait()
		g.want(9, "")
		if g.done {
			t.Error("it ended at once")
		}
		publish(t, w.log, "a", "2")
		synctest.Wait()
		g.want(9, "2")
		time.Sleep(10 * time.Second)
		<-g.sub.Wake()
		g.want(9, "")
		if !g.done {
			t.Error("it has not ended")
		}
		g.sub.Close()
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}
