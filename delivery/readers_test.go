package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rejoin/stream/memlog"
)

// Holds G89.
func TestReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlog.New(memlog.Options{})
		defer l.Close()
		b := New(l, Options{})
		defer b.Close()
		check := func(what string, names []string, a int, since time.Time) {
			t.Helper()
			n, at := b.Readers("a")
			if got := b.ChannelsRead(); !slices.Equal(got, names) || n != a || !at.Equal(since) {
				t.Errorf("%s: %v, %d of a since %v; want %v, %d since %v", what, got, n, at, names, a, since)
			}
		}
		check("nobody", nil, 0, time.Time{})
		begun := time.Now()
		one := b.Subscribe([]Channel{{Name: "a"}, {Name: "b"}})
		time.Sleep(time.Second)
		two := b.Subscribe([]Channel{{Name: "a"}})
		if n := b.Subscriptions(); n != 2 {
			t.Errorf("%d subscriptions, want 2", n)
		}
		check("two", []string{"a", "b"}, 2, begun)
		one.Close()
		check("the first has left", []string{"a"}, 1, begun)
		two.Close()
		check("both have left", nil, 0, time.Time{})
		time.Sleep(time.Second)
		again := b.Subscribe([]Channel{{Name: "a"}})
		defer again.Close()
		check("again", []string{"a"}, 1, begun.Add(2*time.Second))
	})
}

// Every connection is told to move when its time is up, not before and not all
// at the same moment.
// Holds G92.
func TestMoveAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memlog.New(memlog.Options{})
		defer l.Close()
		const age, within = time.Minute, 5 * time.Second
		b := New(l, Options{MoveAge: age, MoveWithin: within})
		defer b.Close()
		begun := time.Now()
		moments := map[time.Duration]bool{}
		for range 50 {
			s := b.Subscribe([]Channel{{Name: "a"}})
			defer s.Close()
			for told := false; !told; {
				for _, it := range s.Next(1 << 10).Items {
					if it.Kind == Move {
						told = true
						took := time.Since(begun)
						moments[took] = true
						if took < age*4/5 || took > age*6/5 || it.Within != within {
							t.Errorf("told after %v to move within %v", took, it.Within)
						}
					}
				}
				if !told {
					<-s.Wake()
				}
			}
			begun = time.Now()
		}
		if len(moments) < 40 {
			t.Errorf("50 connections moved at %d different ages", len(moments))
		}
	})
}
