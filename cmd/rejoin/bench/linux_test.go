//go:build linux

package bench

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestFloor runs the load on a child process that is the floor.
func TestFloor(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"sse", "ws"} {
		o := small("http://ignored")
		o.Transport = transport
		r, err := RunFloor(t.Context(), o, []string{os.Args[0], floorWord})
		if err != nil {
			t.Fatal(err)
		}
		if !r.OK || r.Delivered != 160 {
			t.Errorf("%s: %d of %d delivered: %v", transport, r.Delivered, r.Expected, r.Err())
		}
		if p := r.server(); p == nil || p.RSSBeforeKB == 0 || p.PeakKB < p.RSSEndKB {
			t.Errorf("the floor's process: %+v", p)
		}
	}
}

// TestFloorDropsStuckReaders: sockets that take nothing do not stop the others.
func TestFloorDropsStuckReaders(t *testing.T) {
	t.Parallel()
	o := small("http://ignored")
	o.Slow, o.Size, o.Rate = 1, MaxSize, 300
	o.Quiet = 2 * time.Second
	r, err := RunFloor(t.Context(), o, []string{os.Args[0], floorWord})
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || r.SlowCut != 1 {
		t.Errorf("OK %t, %d slow readers cut, want 1: %v", r.OK, r.SlowCut, r.Err())
	}
}

func TestFloorRefuses(t *testing.T) {
	t.Parallel()
	o := small("http://ignored")
	o.Life = time.Second
	if _, err := RunFloor(t.Context(), o, []string{os.Args[0], floorWord}); err == nil || !strings.Contains(err.Error(), "--life") {
		t.Errorf("error %v, want one about --life", err)
	}
	o.Life, o.Transport = 0, "longpoll"
	if _, err := RunFloor(t.Context(), o, []string{os.Args[0], floorWord}); err == nil || !strings.Contains(err.Error(), "--transport sse or ws") {
		t.Errorf("error %v, want one about --transport", err)
	}
	o.Transport = "sse"
	if _, err := RunFloor(t.Context(), o, []string{"/bin/sh", "-c", "echo broken >&2; exit 1"}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v, want the child's complaint", err)
	}
}

// TestSlowReaderIsSeenToBeCut: epoll tells when a server ends a reader that
// never reads.
func TestSlowReaderIsSeenToBeCut(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(f *fake) { f.cutAfter, f.cutHard = 5, true })
	o := small(f.url)
	o.Slow = 3
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.SlowCut != 3 {
		t.Errorf("%d slow readers cut, want 3", r.SlowCut)
	}
}

func TestReadProcess(t *testing.T) {
	t.Parallel()
	u, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.rssKB < 1000 || u.peakKB < u.rssKB {
		t.Errorf("this process: %+v", u)
	}
	idle, all := machineTime()
	if all <= 0 || idle < 0 || idle > all {
		t.Errorf("the machine: %s of %s idle", idle, all)
	}
	if ownCPU() <= 0 {
		t.Error("this process has used no CPU")
	}
}

// TestSource: the addresses of a loopback client change before its ports run out.
func TestSource(t *testing.T) {
	first := source()
	connects.Add(16000)
	second := source()
	if first == second || first[0] != 127 || second[0] != 127 {
		t.Errorf("%v, then %v", first, second)
	}
}
