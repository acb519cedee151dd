package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

// The log is away for half a minute while others go on publishing: stale within
// 1.5 s, live again within 1 s, nothing lost, nothing twice.
// Holds G50, G58, G60.
func TestLogAway(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		publishN(t, w.log, "a", 1, 5)
		r := read(t, w.b, Channel{Name: "a"})
		alone := read(t, w.b, Channel{Name: "alone"}) // nobody else makes the broker look there
		synctest.Wait()
		w.log.cut()
		time.Sleep(1500 * time.Millisecond)
		w.equal("stale", r.told(), []string{"ready +0", "live", "stale"})
		publishN(t, w.log.log(), "a", 6, 20)
		publishN(t, w.log.log(), "alone", 1, 3)
		time.Sleep(10 * time.Millisecond)
		mid := read(t, w.b, Channel{Name: "a"})                                             // begins while it is away
		lost := read(t, w.b, Channel{Name: "a", Start: StartAfter(stream.ID{MS: 5, N: 3})}) // a cursor of another log
		time.Sleep(28 * time.Second)
		publishN(t, w.log.log(), "a", 26, 5)
		synctest.Wait()
		w.equal("while away", mid.told(), []string{"stale"})
		w.equal("no verdict while away", lost.told(), []string{"stale"})
		w.log.mend()
		time.Sleep(time.Second)
		w.equal("told", r.told(), []string{"ready +0", "live", "stale", "*", "live"})
		w.equal("had", r.payloads(), numbers(6, 25))
		w.equal("alone told", alone.told(), []string{"ready +0", "live", "stale", "*", "live"})
		w.equal("alone had", alone.payloads(), numbers(1, 3))
		w.equal("mid had", mid.payloads(), numbers(26, 5))
		w.equal("mid told", mid.told(), []string{"stale", "ready +5", "replaying", "*", "live"})
		w.equal("lost told", lost.told(), []string{"stale", "ready +30", "replaying", "gap reset 0", "*", "live"})
		r.close()
		alone.close()
		mid.close()
		lost.close()
	})
}

// A short break is no news to anyone.
// Holds G60.
func TestShortBreakIsSilent(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		r := read(t, w.b, Channel{Name: "a"})
		synctest.Wait()
		for i := range 20 {
			w.log.cut()
			publish(t, w.log.log(), "a", fmt.Sprint(i+1))
			time.Sleep(300 * time.Millisecond)
			w.log.mend()
			time.Sleep(time.Second)
		}
		w.equal("told", r.told(), []string{"ready +0", "live", "*"})
		w.equal("had", r.payloads(), numbers(1, 20))
		r.close()
	})
}

// The journal breaks under readers again and again while messages flow.
// Holds G27.
func TestSessionsBreakUnderLoad(t *testing.T) {
	inBubble(t, stream.Retention{MaxMessages: 100000, MaxAge: time.Hour, ChannelTTL: time.Hour}, Options{TailBytes: 50000}, func(w *world) {
		ctx, stop := context.WithCancel(w.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
				w.log.cut()
				time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
				w.log.mend()
			}
		})
		var rs []*reader
		for range 20 {
			rs = append(rs, read(t, w.b, Channel{Name: "a"}))
		}
		synctest.Wait()
		const total = 3000
		for i := range total {
			publish(t, w.log.log(), "a", fmt.Sprint(i+1))
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
		stop()
		wg.Wait()
		time.Sleep(2 * time.Second)
		for i, r := range rs {
			got := r.payloads()
			if len(got) == 0 || i > 0 && len(got) != total {
				t.Errorf("reader %d had %d", i, len(got))
			}
			w.equal("had", got, numbers(total-len(got)+1, len(got)))
			r.close()
		}
	})
}

// A mark may come before the tail's end is known, and the answer to the look
// may be older than the mark.
// Holds G27.
func TestMarkBeforeEndIsKnown(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		publish(t, w.log, "a", "1")
		time.Sleep(time.Second)
		gate := make(chan struct{})
		w.log.mu.Lock()
		w.log.gate = gate
		w.log.mu.Unlock()
		r := read(t, w.b, Channel{Name: "a"})
		synctest.Wait() // the look was made and its answer is held up
		publish(t, w.log, "a", "2")
		synctest.Wait() // its mark has come
		w.log.mu.Lock()
		w.log.gate = nil
		w.log.mu.Unlock()
		close(gate)
		synctest.Wait()
		w.equal("had", r.payloads(), []string{"2"})
		r.close()
	})
}

// More is published than is retained before a live reader's tail can be read:
// what is lost to it is told, though no session ended.
// Holds G27.
func TestLiveReadingChecksTheChain(t *testing.T) {
	keep := stream.Retention{MaxMessages: 5, MaxAge: time.Hour, ChannelTTL: time.Hour}
	inBubble(t, keep, Options{}, func(w *world) {
		r := read(t, w.b, Channel{Name: "a"})
		synctest.Wait()
		w.log.mu.Lock()
		w.log.drop = func(m stream.Mark) bool { return m.ID.N <= 19 }
		w.log.mu.Unlock()
		publishN(t, w.log, "a", 1, 20)
		synctest.Wait()
		w.equal("told", r.told(), []string{"ready +0", "live", "gap trimmed 15", "*"})
		w.equal("had", r.payloads(), numbers(16, 5))
		r.close()
	})
}

// Marks that are lost with the session that should have brought them.
// Holds G24.
func TestWipedRestoredSwapped(t *testing.T) {
	keep := stream.DefaultRetention
	fill := func(n int) stream.Log {
		l := memlog.New(memlog.Options{})
		for i := range n {
			publish(t, l, "a", fmt.Sprint("x", i+1))
		}
		return l
	}
	for _, c := range []struct {
		name    string
		regrown int
		live    []string
		later   []string
	}{
		{"wiped", 0, []string{"ready +0", "live", "gap reset 0 end"}, []string{"ready +0", "gap reset 0 end", "live"}},
		{"regrown to one above", 11, []string{"ready +0", "live", "gap reset 0", "*"}, []string{"ready +11", "replaying", "gap reset 0", "*", "live"}},
		{"regrown below", 3, []string{"ready +0", "live", "gap reset 0", "*"}, []string{"ready +3", "replaying", "gap reset 0", "*", "live"}},
		{"regrown far past", 900, []string{"ready +0", "live", "gap reset 0", "*"}, []string{"ready +900", "replaying", "gap reset 0", "*", "live"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, keep, Options{}, func(w *world) {
				ids := publishN(t, w.log, "a", 1, 10)
				r := read(t, w.b, Channel{Name: "a"})
				synctest.Wait()
				time.Sleep(time.Minute)
				w.log.cut()
				old := w.log.log()
				w.log.swap(fill(c.regrown))
				old.Close()
				w.log.mend()
				time.Sleep(time.Second)
				later := read(t, w.b, Channel{Name: "a", Start: StartAfter(ids[9])})
				synctest.Wait()
				w.equal("connected", r.told(), c.live)
				w.equal("later", later.told(), c.later)
				if n := len(later.payloads()); n != c.regrown {
					t.Errorf("later had %d of %d", n, c.regrown)
				}
				r.close()
				later.close()
			})
		})
	}
}

// A log that answers and refuses everything is no outage to wait for: readers
// are told, and those who come later too, until it is mended.
func TestLogRefusesEverything(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		r := read(t, w.b, Channel{Name: "a"})
		synctest.Wait()
		w.log.refuse(&stream.Error{Op: "listen", Kind: stream.ErrBroken})
		w.log.cut()
		time.Sleep(time.Second)
		<-r.done
		w.equal("connected", r.told(), []string{"ready +0", "live", "error"})
		late := read(t, w.b, Channel{Name: "a"})
		<-late.done
		told := late.told()
		w.equal("late", told[len(told)-1:], []string{"error"})
		w.log.refuse(nil)
		w.log.mend()
		time.Sleep(time.Second)
		mended := read(t, w.b, Channel{Name: "a"})
		synctest.Wait()
		w.equal("mended", mended.told(), []string{"ready +0", "live"})
		mended.close()
	})
}
