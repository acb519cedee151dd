package bench

import (
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// meter counts for the clients of one reader. It is locked once for each piece
// read from a socket.
type meter struct {
	mu     sync.Mutex // guards the following fields
	counts counts
	late   *hdr.Histogram // publish → deliver, µs
	newest int64          // the worst delay since it was last asked for, ns
	first  string         // the first thing that went wrong, in words
}

// counts are the sums of one or many meters.
type counts struct {
	open       int64 // subscribers that were told ready and are connected
	joined     int64 // subscribers that were told ready once
	delivered  int64 // different messages
	bytes      int64 // read from sockets, heads and framing included
	reconnects int64 // connections that resumed, for whatever reason
	dropped    int64 // connections that the server or the network ended, or that failed to open
	moved      int64 // closed because of rejoin.move
	gaps       int64 // rejoin.gap events
	foreign    int64 // messages of another run or another publisher
	violations int64 // breaches of the contract other than lost, repeated, out of order
	slowOpen   int64
	slowCut    int64 // slow readers that the server ended
}

func (c *counts) plus(o counts) {
	c.open += o.open
	c.joined += o.joined
	c.delivered += o.delivered
	c.bytes += o.bytes
	c.reconnects += o.reconnects
	c.dropped += o.dropped
	c.moved += o.moved
	c.gaps += o.gaps
	c.foreign += o.foreign
	c.violations += o.violations
	c.slowOpen += o.slowOpen
	c.slowCut += o.slowCut
}

// newDelays is a histogram of microseconds up to two minutes, to three digits.
func newDelays() *hdr.Histogram { return hdr.New(1, 120_000_000, 3) }

// record adds a delay; what is longer than the histogram counts as its longest.
func record(h *hdr.Histogram, ns int64) {
	_ = h.RecordValue(min(max(ns/1000, 1), h.HighestTrackableValue())) // cannot fail inside the range
}

func newMeter() *meter { return &meter{late: newDelays()} }

// note keeps the first failure; mu is held.
func (m *meter) note(what string) {
	if m.first == "" {
		m.first = what
	}
}

// meters are all of a run's.
type meters []*meter

func (ms meters) sum() (c counts) {
	for _, m := range ms {
		m.mu.Lock()
		c.plus(m.counts)
		m.mu.Unlock()
	}
	return c
}

// worst is the longest delay since it was asked last.
func (ms meters) worst() time.Duration {
	var ns int64
	for _, m := range ms {
		m.mu.Lock()
		ns = max(ns, m.newest)
		m.newest = 0
		m.mu.Unlock()
	}
	return time.Duration(ns)
}

func (ms meters) delays() *hdr.Histogram {
	all := newDelays()
	for _, m := range ms {
		m.mu.Lock()
		all.Merge(m.late)
		m.mu.Unlock()
	}
	return all
}

// failure is the first thing that went wrong, "" for nothing.
func (ms meters) failure() string {
	for _, m := range ms {
		m.mu.Lock()
		first := m.first
		m.mu.Unlock()
		if first != "" {
			return first
		}
	}
	return ""
}
