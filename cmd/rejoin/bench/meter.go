package bench

import (
	"sync"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// meter counts for the clients of one reader. It is locked once for each piece
// read from a socket.
type meter struct {
	mu     sync.Mutex // guards the following fields
	counts counts
	recent *hdr.Histogram // publish → deliver since the last cut, µs
	first  string         // the first thing that went wrong, in words

	late, spare *hdr.Histogram // before the last cut, and an empty one; the run's own
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

func newMeter() *meter { return &meter{recent: newDelays(), late: newDelays(), spare: newDelays()} }

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

// cut returns the delays since the last cut. Only the run calls it.
func (ms meters) cut() *hdr.Histogram {
	span := newDelays()
	for _, m := range ms {
		m.mu.Lock()
		m.recent, m.spare = m.spare, m.recent
		m.mu.Unlock()
		span.Merge(m.spare)
		m.late.Merge(m.spare)
		m.spare.Reset()
	}
	return span
}

// delays are all of them. Only the run calls it.
func (ms meters) delays() *hdr.Histogram {
	ms.cut()
	all := newDelays()
	for _, m := range ms {
		all.Merge(m.late)
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
