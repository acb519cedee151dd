package bench

import "time"

// Phase is what a run is doing.
type Phase string

const (
	Connecting Phase = "connecting"
	Publishing Phase = "publishing"
	Draining   Phase = "draining"
	Leaving    Phase = "closing"
)

// Status is one look at a run under way.
type Status struct {
	Phase       Phase
	Elapsed     time.Duration // of the run
	Connected   int64         // subscribers told ready and connected
	Subscribers int64
	Published   int64         // acknowledged so far
	PerSecond   float64       // deliveries since the last look
	Lag         time.Duration // the longest publish → deliver since the last look
	Done        bool          // the last one
}

// Progress is told of a run under way, by the run's own goroutine: it must
// return soon.
type Progress func(Status)

// progressEvery is the time between two looks.
const progressEvery = 500 * time.Millisecond

// ticker tells the run's Progress.
type ticker struct {
	run       *running
	phase     Phase
	at        int64
	delivered int64
}

func newTicker(r *running) *ticker { return &ticker{run: r, phase: Connecting} }

func (t *ticker) look() {
	if t.run.now()-t.at >= int64(progressEvery) {
		t.tell(false)
	}
}

func (t *ticker) finish() { t.tell(true) }

func (t *ticker) tell(done bool) {
	if t.run.opts.Progress == nil {
		return
	}
	now, c := t.run.now(), t.run.meters.sum()
	span := max(float64(now-t.at)/1e9, 1e-3)
	t.run.opts.Progress(Status{
		Phase: t.phase, Elapsed: time.Duration(now),
		Connected: c.open, Subscribers: int64(t.run.opts.Subscribers),
		Published: t.run.publication.acked.Load(),
		PerSecond: float64(c.delivered-t.delivered) / span,
		Lag:       t.run.meters.worst(),
		Done:      done,
	})
	t.at, t.delivered = now, c.delivered
}
