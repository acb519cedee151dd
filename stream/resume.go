package stream

// Reason says why a cursor cannot simply go on.
type Reason string

const (
	// Trimmed: the messages are gone by retention or deletion, and their
	// number is known exactly.
	Trimmed Reason = "trimmed"
	// Reset: the log was lost or rolled back, or the cursor is not of this log.
	Reset Reason = "reset"
)

// Gap tells a reader what it can no longer have. Never silent.
type Gap struct {
	Channel string
	After   ID     // the cursor it is told to
	Next    ID     // the entry reading goes on with; zero: none yet
	Missed  uint64 // exact when Reason is Trimmed, else unknown
	Reason  Reason
}

// Verdict is what the rule says of a cursor.
type Verdict struct {
	// Gap, if any, is told first.
	Gap *Gap
	// From is the position reading goes on after.
	From ID
	// Free: the entry behind From is next whatever it says of the one before
	// it. When From is Earliest it has still to be read, from there.
	Free bool
}

// Resume is the rule of resume: what a reader with cursor c is told, and where
// it goes on. p must answer a query After c, made after the reader's cursor
// came up for doubt. It is a pure function; every reader of every transport is
// judged by it, at its start and again when the chain it was reading broke.
func Resume(c ID, p Page) Verdict {
	if c == Earliest {
		return Verdict{From: Earliest, Free: true}
	}
	gap := func(reason Reason, missed uint64, next, from ID) Verdict {
		g := &Gap{Channel: p.Channel, After: c, Next: next, Missed: missed, Reason: reason}
		return Verdict{Gap: g, From: from, Free: !next.IsZero()}
	}
	if len(p.Entries) == 0 {
		last := p.Last
		if last.IsZero() {
			last = BeforeFirst
		}
		switch {
		case c == last:
			return Verdict{From: c}
		case c == BeforeFirst:
			return gap(Trimmed, last.N, ID{}, last)
		case !p.Placed:
			return gap(Reset, 0, p.Oldest, Earliest)
		case c.N < last.N && p.Life <= c.MS && c.MS <= last.MS:
			return gap(Trimmed, last.N-c.N, ID{}, last)
		}
		return gap(Reset, 0, ID{}, last)
	}
	next := &p.Entries[0]
	switch {
	case Follows(c, next):
		return Verdict{From: c}
	case c == BeforeFirst:
		if next.Prev == 0 {
			return gap(Reset, 0, next.ID, c)
		}
		return gap(Trimmed, next.ID.N-1, next.ID, c)
	case !p.Placed:
		return gap(Reset, 0, p.Oldest, Earliest)
	case next.ID.N > c.N && next.ID.N-c.N > 1 && c.MS >= next.Life:
		return gap(Trimmed, next.ID.N-c.N-1, next.ID, c)
	}
	return gap(Reset, 0, next.ID, c)
}

// Follows reports whether e comes directly behind position pos: the chain that
// every reader, live or catching up, checks link by link.
func Follows(pos ID, e *Entry) bool {
	if pos == BeforeFirst {
		return e.ID.N == 1
	}
	return e.ID.N == pos.N+1 && e.Prev == pos.MS
}
