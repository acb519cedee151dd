package bench

import (
	"fmt"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run found. Its JSON form only ever grows.
type Result struct {
	URLs                  []string `json:"urls"`
	Transport             string   `json:"transport"`
	Subscribers           int      `json:"subscribers"`
	Channels              int      `json:"channels"`
	ChannelsPerConnection int      `json:"channels_per_connection"`
	Rate                  float64  `json:"rate"`
	Size                  int      `json:"size"`
	DurationS             float64  `json:"duration_s"`
	LifeS                 float64  `json:"life_s"`
	SlowAsked             int      `json:"slow"`
	Publishers            int      `json:"publishers"`
	Interrupted           bool     `json:"interrupted"`
	OK                    bool     `json:"ok"` // nothing lost, repeated, out of order or against the contract
	Failure               string   `json:"failure,omitempty"`
	PublishFailed         string   `json:"publish_failure,omitempty"`

	Connections int64 `json:"connections"` // subscribers connected when publishing began
	Reconnects  int64 `json:"reconnects"`
	Dropped     int64 `json:"dropped"` // connections that the server or the network ended, or that failed to open
	Moved       int64 `json:"moved"`
	SlowCut     int64 `json:"slow_cut"`

	Published int64 `json:"published"` // acknowledged
	Refused   int64 `json:"refused"`
	Unknown   int64 `json:"unknown"`

	Expected   int64 `json:"expected"` // acknowledged messages × their subscribers
	Delivered  int64 `json:"delivered"`
	Lost       int64 `json:"lost"`
	Repeated   int64 `json:"repeated"`
	OutOfOrder int64 `json:"out_of_order"`
	Gaps       int64 `json:"gaps_told"`
	InGaps     int64 `json:"messages_in_gaps"`
	AfterReset int64 `json:"again_after_reset"` // came once more after a told reset
	Violations int64 `json:"violations"`        // of the contract, beside the above
	Foreign    int64 `json:"foreign"`           // messages of others on the same channels

	Seconds       float64 `json:"seconds"` // from the first publish to the last delivery
	DeliveredPerS float64 `json:"delivered_per_s"`
	PublishedPerS float64 `json:"published_per_s"`
	BytesRead     int64   `json:"bytes_read"`

	Latency     Delays `json:"latency_ms"` // publish → deliver
	PublishCall Delays `json:"publish_ms"`

	Processes []ProcessUse `json:"processes"`
	Generator Generator    `json:"generator"`
	Series    []Sample     `json:"series"`
}

// Delays are percentiles in milliseconds.
type Delays struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func delaysOf(h *hdr.Histogram) Delays {
	ms := func(us int64) float64 { return float64(us) / 1e3 }
	q := func(p float64) float64 { return ms(h.ValueAtQuantile(p)) }
	return Delays{P50: q(50), P90: q(90), P99: q(99), P999: q(99.9), Max: ms(h.Max())}
}

// ProcessUse is what a process used: CPU between the first publish and the last
// delivery, memory before any subscriber, with all connected, at the end, and
// at the most in its life.
type ProcessUse struct {
	Name            string  `json:"name"`
	PID             int     `json:"pid,omitempty"`
	URL             string  `json:"url,omitempty"` // of its metrics
	CPUS            float64 `json:"cpu_s"`
	USPerDelivery   float64 `json:"us_per_delivery"`
	RSSBeforeKB     int64   `json:"rss_before_kb"`
	RSSConnectedKB  int64   `json:"rss_connected_kb"`
	RSSEndKB        int64   `json:"rss_end_kb"`
	PeakKB          int64   `json:"rss_peak_kb"`
	KBPerConnection float64 `json:"kb_per_connection"`
	Used            bool    `json:"used"` // it had worked before: see [usedCPU]
}

// usedCPU is the CPU time from which on a process counts as used before the
// run. Its memory then holds what earlier clients needed, and how much it grows
// says nothing of what a connection costs.
const usedCPU = 2 * time.Second

// Generator is how the generator itself fared. Limits are sentences that say
// where it, and not the server, set the figures; none is the good case.
type Generator struct {
	CPUS          float64  `json:"cpu_s"`
	BusiestReader float64  `json:"busiest_reader"` // share of one core
	MachineBusy   float64  `json:"machine_busy"`   // share of all cores, everybody's
	WakeLateP99MS float64  `json:"wake_late_p99_ms"`
	BehindMaxMS   float64  `json:"behind_max_ms"` // the most a message was sent behind its schedule
	Limits        []string `json:"limits"`
}

// Where the generator begins to be the limit.
const (
	busyReader  = 0.9
	busyMachine = 0.97
	lateWake    = 10 * time.Millisecond
	farBehind   = 100 * time.Millisecond
)

// judge fills in the limits.
func (g *Generator) judge(call Delays) {
	g.Limits = []string{}
	limit := func(is bool, format string, args ...any) {
		if is {
			g.Limits = append(g.Limits, fmt.Sprintf(format, args...))
		}
	}
	limit(g.BusiestReader >= busyReader,
		"a thread that reads used %.0f%% of a core: latencies include its own delay", 100*g.BusiestReader)
	limit(g.MachineBusy >= busyMachine,
		"the machine was %.0f%% busy: this and the server took the CPU from each other", 100*g.MachineBusy)
	limit(g.WakeLateP99MS >= ms(lateWake),
		"it woke up to %.0f ms late for a message (p99): it had too little CPU", g.WakeLateP99MS)
	limit(g.BehindMaxMS >= ms(farBehind),
		"the schedule slipped by up to %.0f ms: one connection publishes on a channel, and its calls took %.1f ms (p99); more --publishers help while there are more channels", g.BehindMaxMS, call.P99)
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// settle decides OK.
func (r *Result) settle() {
	r.OK = len(r.faults()) == 0
}

// faults are the things that must not be, in words.
func (r *Result) faults() (all []string) {
	for _, f := range []struct {
		n    int64
		what string
	}{
		{r.Lost, "lost"}, {r.Repeated, "repeated"}, {r.OutOfOrder, "out of order"}, {r.Violations, "against the contract"},
	} {
		if f.n > 0 {
			all = append(all, group(f.n)+" "+f.what)
		}
	}
	if r.Published == 0 {
		all = append(all, "no publish was acknowledged")
	}
	return all
}

// Err is nil if the run is OK, else it says what was wrong in one line.
func (r *Result) Err() error {
	all := r.faults()
	if len(all) == 0 {
		return nil
	}
	text := strings.Join(all, ", ")
	for _, why := range []string{r.Failure, r.PublishFailed} {
		if why != "" {
			text += " (" + why + ")"
		}
	}
	return fmt.Errorf("bench: %s", text)
}

// server is the process whose figures are compared: the one named "server",
// else the first; nil without any.
func (r *Result) server() *ProcessUse {
	for i := range r.Processes {
		if r.Processes[i].Name == serverName {
			return &r.Processes[i]
		}
	}
	if len(r.Processes) > 0 {
		return &r.Processes[0]
	}
	return nil
}

// Comparison is a server beside the floor under the same load.
type Comparison struct {
	Floor  *Result `json:"floor"`
	Server *Result `json:"server"`
	// Server over floor; 0 where one of them was not measured, or is not what it
	// says because the server had been used before.
	RatioUSPerDelivery   float64 `json:"ratio_us_per_delivery"`
	RatioKBPerConnection float64 `json:"ratio_kb_per_connection"`
}

// Compare sets two results side by side.
func Compare(floor, server *Result) *Comparison {
	c := &Comparison{Floor: floor, Server: server}
	f, s := floor.server(), server.server()
	if f == nil || s == nil {
		return c
	}
	if f.USPerDelivery > 0 {
		c.RatioUSPerDelivery = s.USPerDelivery / f.USPerDelivery
	}
	if f.KBPerConnection > 0 && !s.Used {
		c.RatioKBPerConnection = s.KBPerConnection / f.KBPerConnection
	}
	return c
}
