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
	ShortSequences = 1_000
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
	run, err := runModel(t.Context(), new, theRule, seed, sequences)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d sequences from seed %d, %d steps", run.sequences, seed, run.steps)
}

// modelRun is how much was run.
type modelRun struct{ sequences, steps int64 }

// runModel runs the sequences of seed, seed+1 … until one fails.
func runModel(ctx context.Context, new New, rule Rule, seed uint64, sequences int) (modelRun, error) {
	s, err := new(Options{Retention: modelRetention})
	if err != nil {
		return modelRun{}, err
	}
	workers := 1
	if s.Faults() != nil {
		workers = min(2*runtime.GOMAXPROCS(0), sequences)
	}
	var (
		next, steps atomic.Int64
		wg          sync.WaitGroup
		mu          sync.Mutex
		failed      error
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = first(failed, err)
		next.Store(int64(sequences)) // the others stop
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
				m := newModel(ctx, logs, s.Faults(), fmt.Sprintf("w%d.%d", worker, runs), rule)
				err := m.run(ops)
				if f := s.Faults(); f != nil {
					err = first(err, f.Wipe(m.channel))
				}
				return m, err
			}
			for {
				i := next.Add(1) - 1
				if i >= int64(sequences) {
					return
				}
				ops := sequence(seed+uint64(i), s.Faults() != nil)
				steps.Add(int64(len(ops)))
				if _, err := run(ops); err != nil {
					if ctx.Err() == nil {
						ops = shrink(ops, 400, func(ops []op) bool { _, err := run(ops); return err != nil })
					}
					m, shrunk := run(ops)
					if shrunk != nil {
						err = shrunk
					}
					fail(fmt.Errorf("sequence %d (%s=%d), shrunk to %d steps: %w\n%s", i, SeedVariable, seed+uint64(i), len(ops), err, listed(m.log)))
					return
				}
			}
		})
	}
	wg.Wait()
	return modelRun{min(next.Load(), int64(sequences)), steps.Load()}, first(failed, s.Close())
}
