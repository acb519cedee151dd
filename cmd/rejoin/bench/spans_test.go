package bench

import (
	"math/rand/v2"
	"testing"
)

// TestSpans holds spans against a plain set under random operations.
func TestSpans(t *testing.T) {
	const top = 60
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var s spans
		model := map[int64]bool{}
		for range 40 {
			if rnd.IntN(2) == 0 {
				lo := rnd.Int64N(top)
				hi := lo + rnd.Int64N(8)
				s.add(lo, hi)
				for n := lo; n < hi; n++ {
					model[n] = true
				}
			} else {
				n := rnd.Int64N(top + 8)
				if got := s.take(n); got != model[n] {
					t.Fatalf("seed %d: take(%d) = %t, want %t", seed, n, got, model[n])
				}
				delete(model, n)
			}
			for i, x := range s {
				if x.lo >= x.hi || i > 0 && s[i-1].hi >= x.lo {
					t.Fatalf("seed %d: not ascending ranges apart: %v", seed, s)
				}
			}
			lo, hi := rnd.Int64N(top), rnd.Int64N(top+8)
			want := int64(0)
			for n := range model {
				if lo <= n && n < hi {
					want++
				}
			}
			if got := s.within(lo, hi); got != want {
				t.Fatalf("seed %d: within(%d, %d) = %d, want %d in %v", seed, lo, hi, got, want, s)
			}
			if s.count() != int64(len(model)) {
				t.Fatalf("seed %d: count %d, want %d", seed, s.count(), len(model))
			}
		}
	}
}
