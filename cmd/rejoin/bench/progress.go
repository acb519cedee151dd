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

// progressEvery is the least time between two looks. A run has at most
// maxSamples of them: a longer one is looked at less often.
const (
	progressEvery = 500 * time.Millisecond
	maxSamples    = 600
)

// Sample is what happened between two looks at a run, while it published and
// until all had come.
type Sample struct {
	AtS           float64 `json:"at_s"` // its end, from the first publish
	DeliveredPerS float64 `json:"delivered_per_s"`
	P50           float64 `json:"p50_ms"` // publish → deliver
	P99           float64 `json:"p99_ms"`
	Max           float64 `json:"max_ms"`
	CPU           float64 `json:"cpu,omitempty"`    // the server's, in cores
	RSSKB         int64   `json:"rss_kb,omitempty"` // the server's at the end
}

// ticker looks at the run every so often, keeps the samples and tells the run's
// Progress.
type ticker struct {
	run       *running
	phase     Phase
	every     int64
	at        int64 // the last look
	delivered int64 // until then
	cpu       time.Duration
	begun     int64 // the first publish
	series    []Sample
}

func newTicker(r *running) *ticker {
	return &ticker{run: r, phase: Connecting, every: int64(max(progressEvery, r.opts.Duration/maxSamples))}
}

func (t *ticker) look() {
	if t.run.now()-t.at >= t.every {
		t.tell(false)
	}
}

// publishing begins the samples.
func (t *ticker) publishing(cpu time.Duration) {
	t.phase, t.cpu = Publishing, cpu
	t.begun = t.run.now()
	t.at = t.begun
}

// leaving ends them, with what came since the last look.
func (t *ticker) leaving() {
	if t.phase != Connecting && t.run.meters.sum().delivered > t.delivered {
		t.tell(false)
	}
	t.phase = Leaving
}

func (t *ticker) finish() { t.tell(true) }

func (t *ticker) tell(done bool) {
	now, c := t.run.now(), t.run.meters.sum()
	delays := t.run.meters.cut()
	span := max(float64(now-t.at)/1e9, 1e-3)
	rate := float64(c.delivered-t.delivered) / span
	if t.phase == Publishing || t.phase == Draining {
		d := delaysOf(delays)
		s := Sample{AtS: float64(now-t.begun) / 1e9, DeliveredPerS: rate, P50: d.P50, P99: d.P99, Max: d.Max}
		if p := serverOf(t.run.opts.Processes); p != nil {
			if u, err := p.read(); err == nil { // else the run's own look at the end says so
				s.CPU, s.RSSKB = (u.cpu-t.cpu).Seconds()/span, u.rssKB
				t.cpu = u.cpu
			}
		}
		t.series = append(t.series, s)
	}
	if t.run.opts.Progress != nil {
		t.run.opts.Progress(Status{
			Phase: t.phase, Elapsed: time.Duration(now),
			Connected: c.open, Subscribers: int64(t.run.opts.Subscribers),
			Published: t.run.publication.acked.Load(),
			PerSecond: rate,
			Lag:       time.Duration(delays.Max()) * time.Microsecond,
			Done:      done,
		})
	}
	t.at, t.delivered = now, c.delivered
}
