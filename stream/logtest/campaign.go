package logtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"rejoin/stream"
)

const (
	// FullSequences is how many random sequences [Model] runs, ShortSequences
	// how many with -short.
	FullSequences  = 20_000
	ShortSequences = 500
)

// SeedVariable names the environment variable that makes [Model] run the one
// sequence of a seed, as a failure prints it.
const SeedVariable = "LOGTEST_SEED"

// Model runs random sequences of everything that can happen to a log and checks
// what every reader is given and told. A failing sequence is shrunk and printed
// with its seed.
//
// A store without [Faults] is run inside a [testing/synctest] bubble, where
// sleeping moves the clock; it runs in one goroutine.
func Model(t *testing.T, new New) {
	sequences := FullSequences
	if testing.Short() {
		sequences = ShortSequences
	}
	seed := rand.Uint64()
	if s := os.Getenv(SeedVariable); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
		sequences = 1
	}
	seen, err := runModel(t.Context(), new, campaign{rule: theRule, seed: seed, sequences: sequences, shrinks: 400})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d sequences from seed %d: %v", sequences, seed, seen)
}

// campaign is what to run: the sequences of seed, seed+1 … until one fails.
type campaign struct {
	rule      Rule
	seed      uint64
	sequences int
	shrinks   int // how often a failing one may be tried again, to make it short
}

// runModel runs a campaign in a store of its own; it returns what it saw.
func runModel(ctx context.Context, new New, c campaign) (seen counts, err error) {
	s, err := new(Options{Retention: modelRetention})
	if err != nil {
		return seen, err
	}
	workers := 1
	if s.Faults() != nil {
		workers = min(2*runtime.GOMAXPROCS(0), c.sequences)
	}
	var (
		next   atomic.Int64
		wg     sync.WaitGroup
		mu     sync.Mutex // guards failed and seen
		failed error
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = first(failed, err)
		next.Store(int64(c.sequences)) // the others stop
	}
	for worker := range workers {
		wg.Go(func() {
			var logs []stream.Log
			for range 2 {
				l, err := s.Open()
				if err != nil {
					fail(err)
					return
				}
				defer func() {
					if err := l.Close(); err != nil {
						fail(err)
					}
				}()
				logs = append(logs, l)
			}
			runs := 0
			run := func(ops []op) (*model, error) {
				runs++
				m := newModel(ctx, logs, s.Faults(), fmt.Sprintf("w%d.%d", worker, runs), c.rule)
				err := m.run(ops)
				if f := s.Faults(); f != nil {
					err = first(err, f.Wipe(m.channel))
				}
				return m, err
			}
			for {
				i := next.Add(1) - 1
				if i >= int64(c.sequences) {
					return
				}
				seed := c.seed + uint64(i)
				ops := sequence(seed, s.Faults() != nil)
				m, err := run(ops)
				if err == nil {
					mu.Lock()
					seen.add(m.counts)
					mu.Unlock()
					continue
				}
				ops = shrink(ops, c.shrinks, func(ops []op) bool {
					again, shrunk := run(ops)
					if shrunk == nil || ctx.Err() != nil {
						return false
					}
					m, err = again, shrunk
					return true
				})
				fail(fmt.Errorf("sequence %d (%s=%d), shrunk to %d steps: %w\n%s", i, SeedVariable, seed, len(ops), err, m.story()))
				return
			}
		})
	}
	wg.Wait()
	return seen, first(failed, s.Close())
}
