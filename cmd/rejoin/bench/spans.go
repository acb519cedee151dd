package bench

import "slices"

// span is the sequence numbers lo, lo+1 … hi-1.
type span struct{ lo, hi int64 }

// spans is a set of sequence numbers: ranges in ascending order that neither
// touch nor overlap.
type spans []span

// add puts [lo, hi) into the set.
func (s *spans) add(lo, hi int64) {
	if lo >= hi {
		return
	}
	i, _ := slices.BinarySearchFunc(*s, lo, func(x span, lo int64) int {
		if x.hi < lo {
			return -1
		}
		return 1
	}) // the first that ends at or behind lo
	j := i
	for j < len(*s) && (*s)[j].lo <= hi {
		lo, hi = min(lo, (*s)[j].lo), max(hi, (*s)[j].hi)
		j++
	}
	*s = slices.Replace(*s, i, j, span{lo, hi})
}

// take removes one number and reports whether it was there.
func (s *spans) take(n int64) bool {
	for i := len(*s) - 1; i >= 0; i-- { // what comes late is near the end
		x := (*s)[i]
		if x.hi <= n {
			return false
		}
		if x.lo > n {
			continue
		}
		switch {
		case x.lo == n && x.hi == n+1:
			*s = slices.Delete(*s, i, i+1)
		case x.lo == n:
			(*s)[i].lo++
		case x.hi == n+1:
			(*s)[i].hi--
		default:
			(*s)[i].hi = n
			*s = slices.Insert(*s, i+1, span{n + 1, x.hi})
		}
		return true
	}
	return false
}

// count is the size of the set.
func (s spans) count() (n int64) {
	for _, x := range s {
		n += x.hi - x.lo
	}
	return n
}

// within counts the numbers of the set inside [lo, hi).
func (s spans) within(lo, hi int64) (n int64) {
	for _, x := range s {
		if x.lo >= hi {
			break
		}
		n += max(0, min(x.hi, hi)-max(x.lo, lo))
	}
	return n
}
