package delivery

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/stream"
)

// Readers come, stay a moment, go and come back with their cursors while
// messages flow on a few channels: each has every message once, in order.
// Holds G18.
func TestStorm(t *testing.T) {
	for _, tail := range []int{0, 20000, 600} {
		t.Run(fmt.Sprint("tail ", tail), func(t *testing.T) {
			keep := stream.Retention{MaxMessages: 1 << 20, MaxAge: time.Hour, ChannelTTL: time.Hour}
			inBubble(t, keep, Options{TailBytes: tail}, func(w *world) {
				const readers, total = 150, 2000
				stop := make(chan struct{})
				var wg sync.WaitGroup
				for i := range readers {
					wg.Go(func() {
						name := fmt.Sprint("c", i%5)
						start := StartAfter(stream.BeforeFirst)
						next := 1
						for last := false; ; {
							r := readBy(t, w.b, 1+rand.IntN(4000), Channel{Name: name, Start: start})
							select {
							case <-time.After(time.Duration(rand.IntN(200)) * time.Millisecond):
							case <-stop:
								time.Sleep(2 * time.Second)
								last = true
							}
							if pos, ok := r.close()[name]; ok { // else it left before ready
								start = StartAfter(pos)
							}
							for _, p := range r.payloads() {
								if p != fmt.Sprint(next) {
									t.Errorf("reader %d got %s, want %d", i, p, next)
									return
								}
								next++
							}
							if last {
								if next != total/5+1 {
									t.Errorf("reader %d ended at %d", i, next)
								}
								return
							}
						}
					})
				}
				for i := range total {
					publish(t, w.log, fmt.Sprint("c", i%5), fmt.Sprint(i/5+1))
					if rand.IntN(3) == 0 {
						time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
					}
				}
				close(stop)
				wg.Wait()
				if st := w.b.Stats(); st.Subscriptions != 0 || st.Channels != 0 {
					t.Errorf("left over: %+v", st)
				}
				time.Sleep(time.Minute)
				if st := w.b.Stats(); st.Tails != 0 || st.Bytes != 0 {
					t.Errorf("not freed: %+v", st)
				}
			})
		})
	}
}

// Two thousand readers back at once, 100 to 1,000 behind, cost the log what a
// few do.
// Holds G69.
func TestComebackIsShared(t *testing.T) {
	inBubble(t, stream.Retention{MaxMessages: 5000, MaxAge: time.Hour, ChannelTTL: time.Hour}, Options{}, func(w *world) {
		ids := publishN(t, w.log, "a", 1, 2000)
		for _, n := range []int{100, 2000} {
			time.Sleep(time.Minute) // the tail of the round before is gone
			w.log.counts()
			var rs []*reader
			for i := range n {
				rs = append(rs, read(t, w.b, Channel{Name: "a", Start: StartAfter(ids[len(ids)-101-(i*7)%900])}))
			}
			synctest.Wait()
			reads, queries := w.log.counts()
			t.Logf("%d readers: %d round trips, %d queries", n, reads, queries)
			if queries > 60 {
				t.Errorf("%d readers cost %d queries", n, queries)
			}
			for _, r := range rs {
				if got := r.told(); got[len(got)-1] != "live" {
					t.Errorf("told %v", got)
				}
				r.close()
			}
		}
	})
}

// Subscribing to a channel that is read already asks the log nothing.
// Holds G66.
func TestWarmSubscribeAsksNothing(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		publishN(t, w.log, "a", 1, 10)
		first := read(t, w.b, Channel{Name: "a", Start: StartRewind(5)})
		synctest.Wait()
		w.log.counts()
		for range 100 {
			r := read(t, w.b, Channel{Name: "a"})
			synctest.Wait()
			r.close()
		}
		if reads, _ := w.log.counts(); reads != 0 {
			t.Errorf("%d reads", reads)
		}
		first.close()
	})
}

// Holds G51.
func TestDrainSpreads(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		var rs []*reader
		for range 200 {
			rs = append(rs, read(t, w.b, Channel{Name: "a"}))
		}
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- w.b.Drain(w.Context(), 10*time.Second) }()
		var gone []int
		for range 10 {
			time.Sleep(time.Second)
			synctest.Wait()
			gone = append(gone, 200-w.b.Stats().Subscriptions)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if gone[0] > 60 || gone[4] < 50 || gone[9] != 200 {
			t.Errorf("gone by second: %v", gone)
		}
		for _, r := range rs {
			<-r.done
			w.equal("told", r.told(), []string{"ready +0", "live", "move"})
		}
		late := read(t, w.b, Channel{Name: "a"})
		<-late.done
	})
}

// Three thousand readers closed at once while messages flow.
// Holds G48.
func TestClosedAtOnce(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		var rs []*reader
		for range 3000 {
			rs = append(rs, read(t, w.b, Channel{Name: "a"}))
		}
		synctest.Wait()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					publish(t, w.log, "a", fmt.Sprint(i))
				}
			}
		})
		time.Sleep(200 * time.Millisecond)
		for _, r := range rs {
			wg.Go(func() { r.close() })
		}
		time.Sleep(200 * time.Millisecond)
		close(stop)
		wg.Wait()
		if st := w.b.Stats(); st.Subscriptions != 0 || st.Channels != 0 {
			t.Errorf("left over: %+v", st)
		}
	})
}
