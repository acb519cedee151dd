package stream_test

import (
	"testing"

	"rejoin/stream"
)

// held is a channel as a log holds it.
type held struct {
	entries []stream.Entry
	last    stream.ID
	life    uint64
}

// begin is a life whose first n is 1, with one entry for each time.
func begin(ms ...uint64) held { return held{}.renew(0, ms...) }

// renew begins another life above n on top of what is held.
func (h held) renew(n uint64, ms ...uint64) held {
	h.entries = append([]stream.Entry(nil), h.entries...)
	h.last, h.life = stream.ID{N: n}, ms[0]
	return h.grow(ms...)
}

// grow appends one entry for each time.
func (h held) grow(ms ...uint64) held {
	h.entries = append([]stream.Entry(nil), h.entries...)
	for _, t := range ms {
		e := stream.Entry{ID: stream.ID{MS: t, N: h.last.N + 1}, Prev: h.last.MS, Life: h.life}
		h.entries, h.last = append(h.entries, e), e.ID
	}
	return h
}

// trim drops the oldest n entries.
func (h held) trim(n int) held { h.entries = h.entries[n:]; return h }

// back is the log restored to when it held n entries.
func (h held) back(n int) held {
	h.entries = h.entries[:n:n]
	h.last = h.entries[n-1].ID
	return h
}

// page answers a query after c, written from the contract and not from an engine.
func (h held) page(c stream.ID) stream.Page {
	p := stream.Page{Channel: "a", Last: h.last, Life: h.life, Placed: true}
	for _, e := range h.entries {
		switch {
		case c.Less(e.ID):
			p.Entries = append(p.Entries, e)
		default:
			p.Placed = e.ID == c
		}
	}
	if !p.Placed {
		p.Oldest = h.entries[0].ID
	}
	return p
}

func id(ms, n uint64) stream.ID { return stream.ID{MS: ms, N: n} }

// Holds G22, G23, G24, G32.
func TestResume(t *testing.T) {
	var (
		five = begin(100, 200, 300, 400, 500)
		none = stream.ID{}
		same = begin(100, 100, 100, 200, 200) // several in one millisecond
		gone = five.trim(5)
	)
	type told struct {
		reason stream.Reason
		missed uint64
		next   stream.ID
	}
	nothing := told{}
	tests := []struct {
		name   string
		log    held
		cursor stream.ID
		gap    told
		from   stream.ID
		free   bool
	}{
		{"at the head", five, id(500, 5), nothing, id(500, 5), false},
		{"in the middle", five, id(300, 3), nothing, id(300, 3), false},
		{"at the oldest", five.trim(2), id(300, 3), nothing, id(300, 3), false},
		{"one before the oldest", five.trim(2), id(200, 2), nothing, id(200, 2), false},
		{"trimmed by one", five.trim(2), id(100, 1), told{stream.Trimmed, 1, id(300, 3)}, id(100, 1), true},
		{"trimmed by many", five.trim(4), id(100, 1), told{stream.Trimmed, 3, id(500, 5)}, id(100, 1), true},
		{"removed from the middle, behind it", begin(100).grow(200, 300).drop(1), id(100, 1), told{stream.Trimmed, 1, id(300, 3)}, id(100, 1), true},
		{"removed from the middle, it itself", begin(100).grow(200, 300).drop(1), id(200, 2), nothing, id(200, 2), false},
		{"removed from the middle, it and the next", begin(100).grow(200, 300, 400).drop(1).drop(1), id(200, 2), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"removed from the end", five.drop(4), id(400, 4), told{stream.Trimmed, 1, none}, id(500, 5), false},
		{"trimmed to nothing, at the head", gone, id(500, 5), nothing, id(500, 5), false},
		{"trimmed to nothing, one behind", gone, id(400, 4), told{stream.Trimmed, 1, none}, id(500, 5), false},
		{"trimmed to nothing, far behind", gone, id(100, 1), told{stream.Trimmed, 4, none}, id(500, 5), false},
		{"trimmed to nothing, of an older life", begin(100, 200).renew(2, 300, 400).trim(4), id(200, 2), told{stream.Reset, 0, none}, id(400, 4), false},
		{"trimmed to nothing, a later ms with an older n", gone, id(600, 3), told{stream.Reset, 0, none}, id(500, 5), false},
		{"trimmed to nothing, ahead", gone, id(500, 6), told{stream.Reset, 0, none}, id(500, 5), false},

		{"never used, before the first", held{}, stream.BeforeFirst, nothing, stream.BeforeFirst, false},
		{"never used, a cursor of another log", held{}, id(100, 1), told{stream.Reset, 0, none}, stream.BeforeFirst, false},
		{"before the first, then used", five, stream.BeforeFirst, nothing, stream.BeforeFirst, false},
		{"before the first, trimmed by one", five.trim(1), stream.BeforeFirst, told{stream.Trimmed, 1, id(200, 2)}, stream.BeforeFirst, true},
		{"before the first, trimmed by many", five.trim(4), stream.BeforeFirst, told{stream.Trimmed, 4, id(500, 5)}, stream.BeforeFirst, true},
		{"before the first, trimmed to nothing", gone, stream.BeforeFirst, told{stream.Trimmed, 5, none}, id(500, 5), false},
		{"before the first, a noticed new life", held{}.renew(7, 900), stream.BeforeFirst, told{stream.Reset, 0, id(900, 8)}, stream.BeforeFirst, true},

		{"0-0, all retained", five.trim(3), stream.Earliest, nothing, stream.Earliest, true},
		{"0-0, nothing retained", gone, stream.Earliest, nothing, stream.Earliest, true},
		{"0-0, never used", held{}, stream.Earliest, nothing, stream.Earliest, true},

		{"ahead by n", five, id(500, 6), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"ahead by ms", five, id(900, 5), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"ahead by ms, an older n", five, id(900, 3), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"between two entries", five, id(250, 2), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"below the oldest, of before this log", five.trim(2), id(50, 1), told{stream.Reset, 0, id(300, 3)}, id(50, 1), true},
		{"below the oldest, a later n than it", five.trim(2), id(250, 7), told{stream.Reset, 0, id(300, 3)}, id(250, 7), true},
		{"below the oldest, the same n", five.trim(2), id(250, 3), told{stream.Reset, 0, id(300, 3)}, id(250, 3), true},
		{"the largest id there is", five, stream.MaxID, told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"the largest n, an old ms", five.trim(2), id(200, 1<<64-1), told{stream.Reset, 0, id(300, 3)}, id(200, 1<<64-1), true},

		{"expired and begun anew", begin(900, 910), id(300, 3), told{stream.Reset, 0, id(900, 1)}, id(300, 3), true},
		{"expired and begun anew, at its first", begin(900), id(100, 1), told{stream.Reset, 0, id(900, 1)}, id(100, 1), true},
		{"expired and noticed", held{}.renew(5, 900, 910), id(500, 5), told{stream.Reset, 0, id(900, 6)}, id(500, 5), true},

		{"wiped and regrown so that oldest.n == cursor.n+1", begin(900, 910, 920, 930).trim(3), id(300, 3), told{stream.Reset, 0, id(930, 4)}, id(300, 3), true},
		{"wiped and regrown past the cursor", begin(900, 910, 920, 930, 940, 950).trim(5), id(300, 3), told{stream.Reset, 0, id(950, 6)}, id(300, 3), true},
		{"wiped and regrown to the same n", begin(900, 910, 920), id(300, 3), told{stream.Reset, 0, id(900, 1)}, id(300, 3), true},
		{"wiped and regrown with a slower clock", begin(150, 160, 170, 350, 360), id(300, 3), told{stream.Reset, 0, id(150, 1)}, stream.Earliest, true},

		{"rolled back, nothing since", five.back(2), id(500, 5), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"rolled back to nothing stored", five.back(2).trim(2), id(500, 5), told{stream.Reset, 0, none}, id(200, 2), false},
		{"rolled back and regrown past the cursor, a faster clock", five.back(2).grow(600, 610, 620, 630), id(500, 5), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"rolled back and regrown past the cursor, a slower clock", five.back(2).grow(210, 220, 230, 240), id(500, 5), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"rolled back and regrown around the cursor", five.back(2).grow(210, 220, 600, 610), id(500, 5), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"rolled back and regrown so that next.n == cursor.n+1", five.back(2).grow(410, 420, 430, 600).trim(5), id(500, 5), told{stream.Reset, 0, id(600, 6)}, id(500, 5), true},
		{"rolled back, noticed, from before", five.back(2).renew(5, 600), id(200, 2), told{stream.Reset, 0, id(600, 6)}, id(200, 2), true},
		{"rolled back, noticed, from what was lost", five.back(2).renew(5, 600), id(500, 5), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
		{"rolled back, noticed, in the old life's middle", five.back(2).renew(5, 600), id(100, 1), nothing, id(100, 1), false},

		{"two in one millisecond, between them", same, id(100, 1), nothing, id(100, 1), false},
		{"two in one millisecond, at the second", same, id(100, 2), nothing, id(100, 2), false},
		{"two in one millisecond, the next is later", same, id(100, 3), nothing, id(100, 3), false},
		{"two in one millisecond, trimmed between them", same.trim(2), id(100, 1), told{stream.Trimmed, 1, id(100, 3)}, id(100, 1), true},
		{"two in one millisecond, at the head", same, id(200, 5), nothing, id(200, 5), false},
		{"two in one millisecond, ahead of them", same, id(200, 6), told{stream.Reset, 0, id(100, 1)}, stream.Earliest, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := stream.Resume(tt.cursor, tt.log.page(tt.cursor))
			var got told
			if g := v.Gap; g != nil {
				got = told{g.Reason, g.Missed, g.Next}
				if g.Channel != "a" || g.After != tt.cursor {
					t.Errorf("the gap is of %q after %v, want a after %v", g.Channel, g.After, tt.cursor)
				}
			}
			if got != tt.gap {
				t.Errorf("told %+v, want %+v", got, tt.gap)
			}
			if v.From != tt.from || v.Free != tt.free {
				t.Errorf("goes on from %v free %v, want %v free %v", v.From, v.Free, tt.from, tt.free)
			}
		})
	}
}

// drop removes the entry at index i.
func (h held) drop(i int) held {
	h.entries = append(append([]stream.Entry(nil), h.entries[:i]...), h.entries[i+1:]...)
	return h
}

// Holds G27.
func TestFollows(t *testing.T) {
	e := stream.Entry{ID: id(300, 3), Prev: 200, Life: 100}
	for pos, want := range map[stream.ID]bool{
		id(200, 2):         true,
		id(200, 1):         false,
		id(200, 3):         false,
		id(100, 2):         false,
		stream.Earliest:    false,
		stream.BeforeFirst: false,
	} {
		if got := stream.Follows(pos, &e); got != want {
			t.Errorf("300-3 after 200-2 follows %v: %v, want %v", pos, got, want)
		}
	}
	if e := (stream.Entry{ID: id(300, 1), Life: 300}); !stream.Follows(stream.BeforeFirst, &e) {
		t.Error("the first entry does not follow 1-0")
	}
}

// What Before gives must read on with the entry itself, told nothing.
func TestBefore(t *testing.T) {
	h := begin(100, 100, 200).renew(8, 300, 310)
	for i := range h.entries {
		e := &h.entries[i]
		pos, ok := e.Before()
		if first := e.Prev == 0 && e.ID.N > 1; ok == first {
			t.Errorf("%v: ok is %v", e.ID, ok)
		}
		if !ok {
			continue
		}
		p := h.page(pos)
		if v := stream.Resume(pos, p); v.Gap != nil || p.Entries[0].ID != e.ID {
			t.Errorf("reading from %v: %+v, then %v, want %v", pos, v.Gap, p.Entries[0].ID, e.ID)
		}
	}
}
