//go:build linux

package delivery

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rejoin/stream"
	"rejoin/stream/memlog"
)

// lineFramer is the simplest wire there is: a line for each item.
type lineFramer struct{ payload bool }

func (lineFramer) Frames(p *Pieces, items []Item) {
	for i := range items {
		it := &items[i]
		switch it.Kind {
		case Message:
			if i%3 == 0 { // own and shared pieces in every order
				p.Own(func(b []byte) []byte { return append(b, encodeLine(it.Record)...) })
			} else {
				p.Shared(it.Record.Frame(FormJSON, encodeLine))
			}
		case Ready:
			p.Own(func(b []byte) []byte { return fmt.Appendf(b, "ready %v\n", it.Ready[0].Cursor) })
		case Gap:
			p.Own(func(b []byte) []byte { return fmt.Appendf(b, "gap %v\n", it.Gap.Missed) })
		case Move:
			p.Own(func(b []byte) []byte { return fmt.Appendf(b, "move\n") })
		}
	}
}
func encodeLine(r *Record) []byte       { return fmt.Appendf(nil, "%v %s\n", r.ID, r.Payload) }
func (lineFramer) Beat(p *Pieces)       { p.Shared([]byte("beat\n")) }
func (lineFramer) Mail(*Pieces) Parting { return GoOn }
func (lineFramer) Farewell(p *Pieces, _ []Item) Parting {
	p.Shared([]byte("bye\n"))
	return CloseNow
}

// pumpServer accepts "<after>\n" and serves channel a on a pump.
func pumpServer(t testing.TB, b *Broker, sndbuf int, o OutletOptions) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				line := make([]byte, 0, 64)
				var one [1]byte
				for len(line) == 0 || line[len(line)-1] != '\n' {
					if _, err := c.Read(one[:]); err != nil {
						c.Close()
						return
					}
					line = append(line, one[0])
				}
				start := Start{}
				if id, err := stream.ParseID(strings.TrimSpace(string(line))); err == nil {
					start = StartAfter(id)
				}
				if sndbuf > 0 {
					c.(*net.TCPConn).SetWriteBuffer(sndbuf)
				}
				o := o
				o.Framer = lineFramer{}
				var out atomic.Pointer[Outlet]
				if o.Unanswered != nil {
					o.Unanswered = func() { out.Load().shut() }
				}
				if !b.Attach(c.(*net.TCPConn), b.Subscribe([]Channel{{"a", start}}), o, out.Store) {
					t.Error("no pump here")
				}
			})
		}
	})
	return ln.Addr().String()
}

// Connections with tiny socket buffers that come and go and read at different
// speeds: each has every message once, in order, over all its connections.
func TestPumpExactlyOnce(t *testing.T) {
	keep := stream.Retention{MaxMessages: 1 << 20, MaxAge: time.Hour, ChannelTTL: time.Hour}
	l := memlog.New(memlog.Options{Retention: func(string) stream.Retention { return keep }})
	b := New(l, Options{Retention: func(string) stream.Retention { return keep }, TailBytes: 200 << 10})
	addr := pumpServer(t, b, 2048, OutletOptions{Heartbeat: time.Minute, Stuck: 10 * time.Second})
	const readers, total = 60, 3000
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			cursor, next := "1-0", 1
			for next <= total {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				c.(*net.TCPConn).SetReadBuffer(2048)
				fmt.Fprintln(c, cursor)
				r := bufio.NewReaderSize(c, 256)
				for n := rand.IntN(400); n > 0 && next <= total; n-- {
					line, err := r.ReadString('\n')
					if err != nil {
						t.Errorf("reader %d: %v", i, err)
						return
					}
					id, payload, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
					if id == "ready" {
						continue
					}
					num, _, _ := strings.Cut(payload, " ")
					if num != fmt.Sprint(next) {
						t.Errorf("reader %d got %.40q, want %d", i, line, next)
						return
					}
					next++
					cursor = id
					if i%10 == 0 && n%50 == 0 {
						time.Sleep(5 * time.Millisecond) // a slow one
					}
				}
				c.Close()
			}
		})
	}
	pad := strings.Repeat("x", 300)
	for i := range total {
		publish(t, l, "a", fmt.Sprint(i+1, " ", pad[:rand.IntN(300)]))
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	wg.Wait()
	b.Close()
	l.Close()
	if st := b.Stats(); st.Subscriptions != 0 {
		t.Errorf("left over: %+v", st)
	}
}

// A stuck reader ends after Stuck; a silent connection gets its beat, and no
// other does; a beat that wants an answer and has none ends it.
// Holds G42.
func TestPumpSignsOfLife(t *testing.T) {
	l := memlog.New(memlog.Options{})
	b := New(l, Options{})
	defer l.Close()
	defer b.Close()
	addr := pumpServer(t, b, 0, OutletOptions{Heartbeat: 600 * time.Millisecond, Unanswered: func() {}, Stuck: 700 * time.Millisecond})

	quiet, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	fmt.Fprintln(quiet, "live")
	r := bufio.NewReader(quiet)
	expect := func(want string) {
		t.Helper()
		line, err := r.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("got %q, %v; want %q", line, err, want)
		}
	}
	expect("ready")
	for begun := time.Now(); time.Since(begun) < 1800*time.Millisecond; {
		expect(publish(t, l, "a", "x").String()) // and no beat while messages flow
	}
	for range 2 {
		expect("beat")
		fmt.Fprint(quiet, "x")
	}
	// Unanswered, it is beaten to at most twice more and then cut.
	rest, err := io.ReadAll(r)
	if err != nil || strings.Count(string(rest), "beat") > 2 {
		t.Fatalf("got %q, %v", rest, err)
	}

	stuck, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	stuck.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintln(stuck, "live")
	for b.Stats().Subscriptions == 0 {
		time.Sleep(time.Millisecond)
	}
	big := strings.Repeat("x", 500<<10)
	for range 20 {
		publish(t, l, "a", big)
	}
	deadline := time.Now().Add(20 * time.Second)
	for b.Stats().Subscriptions > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the stuck reader is still there")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Three thousand connections closed at once while messages flow.
func TestPumpClosedAtOnce(t *testing.T) {
	var lim syscall.Rlimit
	syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim)
	n := min(3000, int(lim.Cur)/2-100)
	l := memlog.New(memlog.Options{})
	b := New(l, Options{})
	addr := pumpServer(t, b, 0, OutletOptions{Heartbeat: time.Minute, Stuck: time.Second})
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(c, "live")
		conns[i] = c
	}
	for b.Stats().Subscriptions < n {
		time.Sleep(time.Millisecond)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				publish(t, l, "a", fmt.Sprint(i))
				time.Sleep(2 * time.Millisecond)
			}
		}
	})
	time.Sleep(100 * time.Millisecond)
	for _, c := range conns {
		wg.Go(func() { c.Close() })
	}
	deadline := time.Now().Add(20 * time.Second)
	for b.Stats().Subscriptions > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	close(stop)
	wg.Wait()
	if st := b.Stats(); st.Subscriptions != 0 || st.Channels != 0 {
		t.Errorf("left over: %+v", st)
	}
	b.Close()
	l.Close()
}
