package bench

import (
	"sync"
	"time"
)

// reader drives its clients: it opens and closes their connections when they
// are due and hands them what comes, until all of them are over. An error ends
// it early and is one of the machine, not of the server.
type reader interface {
	drive() error
	// busy is the CPU time of the reader's own thread so far, 0 where it has none.
	busy() time.Duration
}

// tick bounds how late a reader sees that a client is due or the phase changed.
const tick = 5 * time.Millisecond

// phases lets a reader see each change of phase once.
type phases struct{ churned, ended bool }

// turn tells the clients of a phase that began since the last call and reports
// whether one did.
func (ph *phases) turn(s *shared, now int64, clients ...*client) bool {
	switch {
	case !ph.ended && s.end.Load() != 0:
		ph.ended, ph.churned = true, true
		for _, k := range clients {
			k.onEnd()
		}
		return true
	case !ph.churned && s.churn.Load():
		ph.churned = true
		for _, k := range clients {
			k.onChurn(now)
		}
		return true
	}
	return false
}

// fleet is all clients of a run with their readers.
type fleet struct {
	clients []*client
	meters  meters
	readers []reader
	wg      sync.WaitGroup
	failed  chan error // the first error of a reader
}

// newFleet makes the clients and shares them out. make makes a reader for its
// share.
func newFleet(s *shared, readers int, make_ func(*shared, []*client) reader) *fleet {
	f := &fleet{failed: make(chan error, 1)}
	shares := make([][]*client, readers)
	for range readers {
		f.meters = append(f.meters, newMeter())
	}
	for i := range s.opts.Subscribers + s.opts.Slow {
		at := int64(float64(i) / s.opts.ConnectRate * 1e9)
		k := newClient(s, f.meters[i%readers], i, at)
		f.clients = append(f.clients, k)
		shares[i%readers] = append(shares[i%readers], k)
	}
	for _, share := range shares {
		f.readers = append(f.readers, make_(s, share))
	}
	return f
}

func (f *fleet) start() {
	for _, r := range f.readers {
		f.wg.Go(func() {
			if err := r.drive(); err != nil {
				select {
				case f.failed <- err:
				default:
				}
			}
		})
	}
}

// busy is each reader's CPU time so far.
func (f *fleet) busy() (all []time.Duration) {
	for _, r := range f.readers {
		all = append(all, r.busy())
	}
	return all
}
