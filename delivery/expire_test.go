package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/stream"
)

// kinds are those of a batch's items.
func kinds(b Batch) (all []Kind) {
	for i := range b.Items {
		all = append(all, b.Items[i].Kind)
	}
	return all
}

// The end of the right to read is told at its moment, ahead of messages, and
// nothing comes behind it.
// Holds G101.
func TestExpire(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		sub := w.b.Subscribe([]Channel{{Name: "a"}})
		defer sub.Close()
		sub.ExpireAt(time.Now().Add(time.Minute))
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		<-sub.Wake()
		if b := sub.Next(1 << 20); b.Done || slices.Contains(kinds(b), Expired) {
			t.Fatalf("before its time: %v", kinds(b))
		}
		publish(t, w.log, "a", "waits behind it")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		<-sub.Wake()
		if b := sub.Next(1 << 20); !b.Done || !slices.Equal(kinds(b), []Kind{Expired}) {
			t.Fatalf("done %v: %v", b.Done, kinds(b))
		}
		if b := sub.Next(1 << 20); !b.Done || len(b.Items) > 0 {
			t.Fatalf("behind it: done %v: %v", b.Done, kinds(b))
		}
	})
}

// The newest moment counts, and a zero one is never; one that is past is now.
// Holds G101.
func TestExpireIsRenewed(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		sub := w.b.Subscribe([]Channel{{Name: "a"}})
		defer sub.Close()
		sub.ExpireAt(time.Now().Add(time.Second))
		sub.ExpireAt(time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		synctest.Wait()
		if b := sub.Next(1 << 20); b.Done {
			t.Fatal("it ended at the old moment")
		}
		sub.ExpireAt(time.Time{})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if b := sub.Next(1 << 20); b.Done {
			t.Fatal("it ended, but never was to")
		}
		sub.ExpireAt(time.Now().Add(-time.Hour))
		synctest.Wait()
		if b := sub.Next(1 << 20); !b.Done || !slices.Equal(kinds(b), []Kind{Expired}) {
			t.Fatalf("done %v: %v", b.Done, kinds(b))
		}
	})
}

// A transport that gathers one answer is told nothing: it is done.
// Holds G101.
func TestOldestExpires(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		publish(t, w.log, "a", "1")
		g := gather(t, w.b, Channel{"a", StartAfter(stream.BeforeFirst)})
		defer g.sub.Close()
		g.sub.ExpireAt(time.Now().Add(time.Second))
		g.settled("+a")
		g.want(9, "1")
		time.Sleep(time.Second)
		synctest.Wait()
		<-g.sub.Wake()
		g.want(9, "")
		if !g.done {
			t.Error("it has not ended")
		}
	})
}
