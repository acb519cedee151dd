package bench

// account is what one subscriber got of its channel, by sequence. It is told of
// every message and gap as they come; [account.close] gives the verdict once it
// is known what was acknowledged.
type account struct {
	next  int64 // the sequence that comes now if all is well, from 1
	high  int64 // above every sequence that came
	holes spans // skipped below high, and not come since
	late  spans // came after a higher one
	told  []toldHole

	dropped int64 // skipped, but not kept in holes any more: see maxHoles

	gap     bool  // a gap was told since the last message
	missed  int64 // how many it admits, -1: any number
	trimmed bool  // it says that messages are missing
	restart bool  // it lets the channel begin anew from any message

	got      int64 // different messages
	repeated int64
	again    int64 // came before, and once more after a told reset
	alarms   int64 // gaps "trimmed" with nothing missing
}

// toldHole is what was skipped just behind a gap.
type toldHole struct {
	span
	missed int64 // how many the gap admits, -1: any number
}

// maxHoles bounds holes, told and late each: beyond it a hole is counted as lost
// at once, whatever its publish was answered.
const maxHoles = 256

func newAccount() account { return account{next: 1, high: 1} }

// onGap takes a told gap; missed < 0 is an unknown number.
func (a *account) onGap(missed int64, reset bool) {
	switch {
	case missed < 0 || a.gap && a.missed < 0:
		a.missed = -1
	case a.gap:
		a.missed += missed
	default:
		a.missed = missed
	}
	a.gap = true
	a.restart = a.restart || reset
	a.trimmed = a.trimmed || !reset && missed != 0
}

// onMessage takes a message of the sequence and reports whether it is a new one.
func (a *account) onMessage(seq int64) bool {
	if a.restart && seq < a.next {
		a.next = seq
	}
	skips := seq > max(a.next, a.high)
	if skips {
		a.skip(max(a.next, a.high), seq)
	} else if a.trimmed && !a.restart {
		a.alarms++
	}
	a.gap, a.missed, a.trimmed, a.restart = false, 0, false, false

	switch {
	case seq >= a.high:
		a.next, a.high = seq+1, seq+1
		a.got++
		return true
	case a.holes.take(seq):
		if seq < a.next && len(a.late) < maxHoles {
			a.late.add(seq, seq+1)
		}
		a.next = max(a.next, seq+1)
		a.got++
		return true
	case seq >= a.next:
		a.next = seq + 1
		a.again++
	default:
		a.repeated++
	}
	return false
}

// skip notes that [lo, hi) did not come in its turn.
func (a *account) skip(lo, hi int64) {
	if len(a.holes) >= maxHoles || len(a.told) >= maxHoles {
		a.dropped += hi - lo
		return
	}
	a.holes.add(lo, hi)
	if a.gap {
		a.told = append(a.told, toldHole{span{lo, hi}, a.missed})
	}
}

// verdict is the sum of one or many accounts against what was published.
type verdict struct {
	expected   int64 // acknowledged messages
	got        int64
	lost       int64 // acknowledged, neither come nor told
	told       int64 // acknowledged, not come, told by a gap
	repeated   int64
	outOfOrder int64
	again      int64
	alarms     int64
	ghosts     int64 // came although their publish was refused
}

// close gives the verdict. The account is over.
func (a *account) close(p *published) verdict {
	if a.high <= p.last {
		a.skip(a.high, p.last+1)
	} else if a.trimmed && !a.restart {
		a.alarms++
	}
	v := verdict{
		expected: p.acknowledged(1, p.last+1),
		got:      a.got,
		lost:     a.dropped,
		repeated: a.repeated,
		again:    a.again,
		alarms:   a.alarms,
		ghosts:   p.refused.count(),
	}
	for _, h := range a.holes {
		v.lost += p.acknowledged(h.lo, h.hi)
		v.ghosts -= p.refused.within(h.lo, h.hi)
	}
	for _, t := range a.told {
		missing := int64(0)
		for _, h := range a.holes {
			if lo, hi := max(h.lo, t.lo), min(h.hi, t.hi); lo < hi {
				missing += p.acknowledged(lo, hi)
			}
		}
		if t.missed >= 0 {
			missing = min(missing, t.missed)
		}
		v.told += missing
		v.lost -= missing
	}
	for _, l := range a.late {
		v.outOfOrder += p.acknowledged(l.lo, l.hi)
	}
	return v
}

// plus adds another account's verdict.
func (v *verdict) plus(o verdict) {
	v.expected += o.expected
	v.got += o.got
	v.lost += o.lost
	v.told += o.told
	v.repeated += o.repeated
	v.outOfOrder += o.outOfOrder
	v.again += o.again
	v.alarms += o.alarms
	v.ghosts += o.ghosts
}
