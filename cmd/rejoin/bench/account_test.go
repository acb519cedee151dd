package bench

import "testing"

// TestAccount: ten messages were published; what comes to one client, and the
// verdict. Negative steps are gaps, see the names.
func TestAccount(t *testing.T) {
	const (
		trimmed2   = -2  // trimmed, missed 2
		trimmed3   = -3  // trimmed, missed 3
		trimmed0   = -20 // trimmed, missed unknown
		resetAny   = -30 // reset, missed unknown
		resetThree = -33 // reset, missed 3
	)
	span1to := func(hi int64) (s spans) { s.add(1, hi+1); return s }
	tests := []struct {
		name  string
		steps []int64
		pub   published
		want  verdict
	}{
		{"all", []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, published{last: 10},
			verdict{expected: 10, got: 10}},
		{"one lost", []int64{1, 2, 3, 5, 6, 7, 8, 9, 10}, published{last: 10},
			verdict{expected: 10, got: 9, lost: 1}},
		{"first and last lost", []int64{2, 3, 4, 5, 6, 7, 8, 9}, published{last: 10},
			verdict{expected: 10, got: 8, lost: 2}},
		{"nothing came", nil, published{last: 10},
			verdict{expected: 10, lost: 10}},
		{"nothing published", nil, published{},
			verdict{}},
		{"repeated", []int64{1, 2, 2, 3, 1, 4}, published{last: 4},
			verdict{expected: 4, got: 4, repeated: 2}},
		{"swapped", []int64{1, 3, 2, 4}, published{last: 4},
			verdict{expected: 4, got: 4, outOfOrder: 1}},
		{"late and repeated", []int64{1, 4, 2, 2, 3, 5}, published{last: 5},
			verdict{expected: 5, got: 5, outOfOrder: 2, repeated: 1}},
		{"gap, exact", []int64{1, trimmed3, 5, 6}, published{last: 6},
			verdict{expected: 6, got: 3, told: 3}},
		{"gap admits too little", []int64{1, trimmed2, 5, 6}, published{last: 6},
			verdict{expected: 6, got: 3, told: 2, lost: 1}},
		{"gap admits more than was published", []int64{1, trimmed3, 3}, published{last: 3},
			verdict{expected: 3, got: 2, told: 1}},
		{"gap, unknown number", []int64{1, trimmed0, 5, 6}, published{last: 6},
			verdict{expected: 6, got: 3, told: 3}},
		{"two gaps in one place", []int64{1, trimmed2, trimmed2, 6}, published{last: 6},
			verdict{expected: 6, got: 2, told: 4}},
		{"gap at the end", []int64{1, 2, trimmed3}, published{last: 5},
			verdict{expected: 5, got: 2, told: 3}},
		{"a gap explains only its own place", []int64{1, trimmed3, 5, 7}, published{last: 7},
			verdict{expected: 7, got: 3, told: 3, lost: 1}},
		{"false alarm", []int64{1, trimmed2, 2, 3}, published{last: 3},
			verdict{expected: 3, got: 3, alarms: 1}},
		{"false alarm at the end", []int64{1, 2, trimmed2}, published{last: 2},
			verdict{expected: 2, got: 2, alarms: 1}},
		{"reset with nothing lost", []int64{1, resetAny, 2, 3}, published{last: 3},
			verdict{expected: 3, got: 3}},
		{"reset, all once more", []int64{1, 2, 3, resetAny, 1, 2, 3, 4}, published{last: 4},
			verdict{expected: 4, got: 4, again: 3}},
		{"reset fills a hole", []int64{1, 3, resetAny, 1, 2, 3, 4}, published{last: 4},
			verdict{expected: 4, got: 4, again: 2}},
		{"reset, then a repeat", []int64{1, 2, resetAny, 1, 1, 2, 3}, published{last: 3},
			verdict{expected: 3, got: 3, again: 2, repeated: 1}},
		{"reset, messages gone", []int64{1, resetThree, 5}, published{last: 5},
			verdict{expected: 5, got: 2, told: 3}},
		{"refused ones may be missing", []int64{4, 5}, published{last: 5, refused: span1to(3)},
			verdict{expected: 2, got: 2}},
		{"a refused one came", []int64{3, 4, 5}, published{last: 5, refused: span1to(3)},
			verdict{expected: 2, got: 3, ghosts: 1}},
		{"an unknown one came, or not", []int64{2, 4, 5}, published{last: 5, unknown: span1to(3)},
			verdict{expected: 2, got: 3}},
		{"an unknown one came late", []int64{2, 3, 4, 1, 5}, published{last: 5, unknown: span1to(1)},
			verdict{expected: 4, got: 5}},
		{"an unknown one came twice", []int64{1, 1, 2}, published{last: 2, unknown: span1to(1)},
			verdict{expected: 1, got: 2, repeated: 1}},
		{"gap over acknowledged and refused", []int64{trimmed2, 5}, published{last: 5, refused: span1to(2)},
			verdict{expected: 3, got: 1, told: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAccount()
			for _, n := range tt.steps {
				switch n {
				case trimmed2, trimmed3:
					a.onGap(-n, false)
				case trimmed0:
					a.onGap(-1, false)
				case resetAny:
					a.onGap(-1, true)
				case resetThree:
					a.onGap(3, true)
				default:
					a.onMessage(n)
				}
			}
			if got := a.close(&tt.pub); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestAccountIsBounded: a client that gets every other message keeps a bounded
// account, and each loss is still counted.
func TestAccountIsBounded(t *testing.T) {
	a := newAccount()
	const last = 10 * maxHoles
	for n := int64(1); n <= last; n += 2 {
		a.onMessage(n)
	}
	if len(a.holes) > maxHoles {
		t.Errorf("%d holes are kept, want at most %d", len(a.holes), maxHoles)
	}
	got := a.close(&published{last: last})
	if want := (verdict{expected: last, got: last / 2, lost: last / 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
