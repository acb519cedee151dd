//go:build !linux

package bench

import "runtime"

func newFleetOf(s *shared) *fleet {
	return newFleet(s, max(1, min(runtime.NumCPU(), s.opts.Subscribers)), newNetReader)
}
