package delivery

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

// The queue of a group that is never served to its end stays as long as its
// connections are many.
func TestBusyGroupStaysSmall(t *testing.T) {
	p := &pump{wake: make(chan struct{}, 1), groups: map[*tail]*group{}}
	const outlets = 100
	for range outlets {
		o := &Outlet{}
		p.enter(o, nil)
		p.push(o)
	}
	buf := make([]*Outlet, turnCheck)
	for range 100_000 {
		for _, o := range p.pop(buf, true) {
			p.push(o)
		}
	}
	if n := cap(p.groups[nil].queue); n > 10*outlets {
		t.Errorf("%d connections, a queue of %d", outlets, n)
	}
}

// What a chain drops is let go, not only no longer counted.
func TestDroppedRecordsAreLetGo(t *testing.T) {
	c := &chain{known: true}
	var first weak.Pointer[Record]
	for i := range uint64(1000) {
		r := &Record{Entry: stream.Entry{ID: stream.ID{MS: 1, N: i + 1}, Payload: strings.Repeat("x", 4096)}}
		if i == 0 {
			first = weak.Make(r)
		}
		c.append(r)
	}
	kept := *c
	c = nil
	kept.trim(1000, stream.ID{}, 9000)
	runtime.GC()
	runtime.GC()
	if first.Value() != nil {
		t.Errorf("%d bytes are counted, and the first record is still held", kept.bytes)
	}
	runtime.KeepAlive(&kept)
}

// Readers that come and go while the log is away leave nothing to be read.
func TestNothingIsAskedForTheGone(t *testing.T) {
	inBubble(t, stream.Retention{}, Options{}, func(w *world) {
		w.log.cut()
		time.Sleep(2 * time.Second)
		for i := range 1000 {
			s := w.b.Subscribe([]Channel{{Name: fmt.Sprint("a", i%3)}})
			s.Next(1000)
			time.Sleep(5 * time.Millisecond)
			s.Close()
		}
		p := w.b.parts[0]
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.queue) > 0 || len(p.wants) > 0 {
			t.Errorf("nobody is there, and %d reads wait, %d are known", len(p.queue), len(p.wants))
		}
	})
}

// knowing remembers, as an engine may, what it was answered before a wipe.
type knowing struct {
	*shaky
	known map[string]stream.ID
}

func (k *knowing) Known(c string) stream.ID { return later(k.known[c], k.shaky.Known(c)) }

// A live reader that comes after a wipe does not wait for an id that is gone.
func TestLiveAfterAWipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &knowing{newShaky(memlog.Options{}), map[string]stream.ID{}}
		b := New(l, Options{})
		defer func() { b.Close(); l.Close() }()
		first := read(t, b, Channel{Name: "a"})
		l.known["a"] = publishN(t, l, "a", 1, 3)[2]
		synctest.Wait()
		l.cut()
		old := l.log()
		l.swap(memlog.New(memlog.Options{}))
		old.Close()
		l.mend()
		time.Sleep(2 * time.Second)
		late := read(t, b, Channel{Name: "a"})
		time.Sleep(time.Second)
		if told := late.told(); told[len(told)-1] != "live" {
			t.Errorf("told %v", told)
		}
		publish(t, l, "a", "x")
		synctest.Wait()
		if got := late.payloads(); len(got) != 1 {
			t.Errorf("had %v", got)
		}
		first.close()
		late.close()
	})
}

// A page that was held until retention had passed it is not sent: the gap that
// was told is followed by another.
func TestPageHeldTooLong(t *testing.T) {
	keep := stream.Retention{MaxMessages: 10, MaxAge: time.Hour, ChannelTTL: time.Hour}
	ret := func(string) stream.Retention { return keep }
	synctest.Test(t, func(t *testing.T) {
		one := func() *shaky { return newShaky(memlog.Options{Retention: ret}) }
		l := split{one(), one()}
		b := New(l, Options{Retention: ret})
		defer func() { b.Close(); l.Close(); l.second.Close() }()
		ids := publishN(t, l.Log, "a", 1, 30)
		publish(t, l.second, "z", "z1")
		synctest.Wait()
		l.second.cut()
		time.Sleep(3 * time.Second)
		// z starts live, so that ready waits for its part; a has its gap by then.
		s := b.Subscribe([]Channel{{"a", StartAfter(ids[0])}, {Name: "z"}})
		defer s.Close()
		for range 5 {
			s.Next(1 << 20)
			synctest.Wait()
		}
		publishN(t, l.Log, "a", 31, 30)
		time.Sleep(pageSlack + time.Second)
		l.second.mend()
		time.Sleep(2 * time.Second)
		at, told := ids[0].N, uint64(0)
		for range 10 {
			for _, it := range s.Next(1 << 20).Items {
				switch {
				case it.Kind == Gap:
					told += it.Gap.Missed
					at = it.Gap.Next.N - 1
				case it.Kind == Message && it.Channel == "a":
					if n := it.Record.ID.N; n != at+1 || n <= 50 {
						t.Errorf("message %d behind %d", n, at)
					}
					at = it.Record.ID.N
				}
			}
			synctest.Wait()
		}
		if at != 60 || told != 49 {
			t.Errorf("ended at %d, told of %d missed", at, told)
		}
	})
}
