package logtest

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"rejoin/stream"
)

// conditions are the lines and conditions of the rule of resume, each with what
// it is for. The mutants drop one at a time.
var conditions = []string{
	0:  "the next n",
	1:  "the ms of the one before",
	2:  "before the first, only n = 1 follows",
	3:  "before the first, the one before is not asked for",
	4:  "earliest is not checked",
	5:  "nothing behind: a channel without an id is before its first",
	6:  "nothing behind: at the end is live",
	7:  "nothing behind: before the first is behind by all",
	8:  "nothing behind: not placed is a reset",
	9:  "nothing behind: an n below the last",
	10: "nothing behind: not of an older life",
	11: "nothing behind: not above the last in time",
	12: "nothing behind: otherwise a reset",
	13: "a gap with nothing behind moves to the end",
	14: "what follows goes on",
	15: "before the first: a life that goes on above known ids is a reset",
	16: "before the first: what came and went is trimmed",
	17: "not placed is a reset",
	18: "not placed begins at the oldest",
	19: "an n above",
	20: "an n further above than the next",
	21: "not of an older life",
	22: "otherwise a reset",
	23: "placed goes on with what is behind, unchecked",
}

// without is the rule of resume with one condition dropped; -1 drops none. It is
// written out so that a mutant is one word; TestWithoutNothing holds it to the
// original.
func without(dropped int) Rule {
	has := func(condition int) bool { return condition != dropped }
	follows := func(pos stream.ID, e *stream.Entry) bool {
		if pos == stream.BeforeFirst && has(3) {
			return e.ID.N == 1 || !has(2)
		}
		return (e.ID.N == pos.N+1 || !has(0)) && (e.Prev == pos.MS || !has(1))
	}
	resume := func(c stream.ID, p stream.Page) stream.Verdict {
		if c == stream.Earliest && has(4) {
			return stream.Verdict{From: stream.Earliest, Free: true}
		}
		gap := func(reason stream.Reason, missed uint64, next, from stream.ID) stream.Verdict {
			g := &stream.Gap{Channel: p.Channel, After: c, Next: next, Missed: missed, Reason: reason}
			return stream.Verdict{Gap: g, From: from, Free: !next.IsZero() && has(23)}
		}
		oldest := stream.Earliest
		if !has(18) {
			oldest = c
		}
		if len(p.Entries) == 0 {
			last := p.Last
			if last.IsZero() && has(5) {
				last = stream.BeforeFirst
			}
			end := last
			if !has(13) {
				end = c
			}
			switch {
			case c == last && has(6):
				return stream.Verdict{From: c}
			case c == stream.BeforeFirst && has(7):
				return gap(stream.Trimmed, last.N, stream.ID{}, end)
			case !p.Placed && has(8):
				return gap(stream.Reset, 0, p.Oldest, oldest)
			case (c.N < last.N || !has(9)) && (p.Life <= c.MS || !has(10)) && (c.MS <= last.MS || !has(11)):
				return gap(stream.Trimmed, last.N-c.N, stream.ID{}, end)
			case !has(12):
				return stream.Verdict{From: end}
			}
			return gap(stream.Reset, 0, stream.ID{}, end)
		}
		next := &p.Entries[0]
		switch {
		case follows(c, next) && has(14):
			return stream.Verdict{From: c}
		case c == stream.BeforeFirst && next.Prev == 0 && has(15):
			return gap(stream.Reset, 0, next.ID, c)
		case c == stream.BeforeFirst && has(16):
			return gap(stream.Trimmed, next.ID.N-1, next.ID, c)
		case !p.Placed && has(17):
			return gap(stream.Reset, 0, p.Oldest, oldest)
		case (next.ID.N > c.N || !has(19)) && (next.ID.N-c.N > 1 || !has(20)) && (c.MS >= next.Life || !has(21)):
			return gap(stream.Trimmed, next.ID.N-c.N-1, next.ID, c)
		case !has(22):
			return stream.Verdict{From: c, Free: true}
		}
		return gap(stream.Reset, 0, next.ID, c)
	}
	return Rule{resume, follows}
}

// With nothing dropped it is the rule, whatever it is asked.
func TestWithoutNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	id := func() stream.ID {
		switch r.IntN(8) {
		case 0:
			return stream.Earliest
		case 1:
			return stream.BeforeFirst
		}
		return stream.ID{MS: r.Uint64N(6), N: r.Uint64N(6)}
	}
	whole := without(-1)
	for range 100_000 {
		c := id()
		p := stream.Page{Channel: "a", Last: id(), Life: r.Uint64N(6), Placed: r.IntN(2) == 0, Oldest: id()}
		for range r.IntN(2) {
			e := stream.Entry{ID: id(), Prev: r.Uint64N(6), Life: r.Uint64N(6)}
			p.Entries = append(p.Entries, e)
			if got, want := whole.Follows(c, &e), stream.Follows(c, &e); got != want {
				t.Fatalf("%+v follows %v: %v, want %v", e, c, got, want)
			}
		}
		if got, want := whole.Resume(c, p), stream.Resume(c, p); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, %+v: %s, want %s", c, p, verdict(got), verdict(want))
		}
	}
}

// TestRuleMutants: the model finds every condition of the rule that is missing.
// Holds G20.
func TestRuleMutants(t *testing.T) {
	for i, name := range conditions {
		_, err := runModel(t.Context(), newPaper, campaign{rule: without(i), seed: 1, sequences: 4 * MutantSequences, shrinks: 200})
		if err == nil {
			t.Errorf("nothing finds the rule without %q", name)
			continue
		}
		t.Logf("%-68s %s", name, firstLine(err))
	}
}
