package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"rejoin/delivery"
	"rejoin/stream"
)

// Metrics is what a server measures, in a registry of its own. It is made before
// the log and the broker, which are told to measure with it. No label grows with
// channels or clients.
type Metrics struct {
	registry *prometheus.Registry

	appended  prometheus.Counter
	problems  *prometheus.CounterVec // by code
	delivered prometheus.Counter
	gaps      *prometheus.CounterVec // by reason
	catchUp   prometheus.Counter
	logErrors *prometheus.CounterVec // by kind

	publishedToArrived prometheus.Histogram
	arrivedToDelivered prometheus.Histogram
	feedLag            prometheus.Histogram
	roundTrip          *prometheus.HistogramVec // by op
}

var _ delivery.Meter = (*Metrics)(nil)

// seconds are the buckets of all times: 100 µs to a minute.
var seconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60}

// NewMetrics makes the metrics of one server.
func NewMetrics() *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds})
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		appended:  counter("rejoin_appended_total", "Messages appended by this server."),
		problems:  counters("rejoin_problems_total", "Requests answered with a problem, by its code.", "code"),
		delivered: counter("rejoin_delivered_total", "Messages written to subscribers."),
		gaps:      counters("rejoin_gaps_total", "Gaps told to readers, by reason.", "reason"),
		catchUp:   counter("rejoin_catch_up_reads_total", "Reads of the log for readers behind the tail."),
		logErrors: counters("rejoin_log_errors_total", "Failures of the log, by kind.", "kind"),
		publishedToArrived: histogram("rejoin_published_to_arrived_seconds",
			"From the publish time, by the log's clock, to the message's arrival at this server."),
		arrivedToDelivered: histogram("rejoin_arrived_to_delivered_seconds",
			"From the arrival of the oldest message of a write at this server, or from when a reader that catches up asked for it, to that write's end."),
		feedLag: histogram("rejoin_feed_lag_seconds", "From the announcement of a message to the reading of its channel."),
		roundTrip: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rejoin_redis_round_trip_seconds", Help: "Round trips to Redis, by operation.", Buckets: seconds,
		}, []string{"op"}),
	}
	for _, code := range codes {
		m.problems.WithLabelValues(code)
	}
	for _, reason := range []stream.Reason{stream.Trimmed, stream.Reset} {
		m.gaps.WithLabelValues(string(reason))
	}
	m.registry.MustRegister(
		m.appended, m.problems, m.delivered, m.gaps, m.catchUp, m.logErrors,
		m.publishedToArrived, m.arrivedToDelivered, m.feedLag, m.roundTrip,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Arrived implements [delivery.Meter].
func (m *Metrics) Arrived(afterPublish time.Duration) { observe(m.publishedToArrived, afterPublish) }

// Delivered implements [delivery.Meter]. It observes one time for one write.
func (m *Metrics) Delivered(n int, afterArrival time.Duration) {
	m.delivered.Add(float64(n))
	observe(m.arrivedToDelivered, afterArrival)
}

// GapTold implements [delivery.Meter].
func (m *Metrics) GapTold(reason stream.Reason) { m.gaps.WithLabelValues(string(reason)).Inc() }

// CatchUpRead implements [delivery.Meter].
func (m *Metrics) CatchUpRead() { m.catchUp.Inc() }

// FeedLag implements [delivery.Meter].
func (m *Metrics) FeedLag(d time.Duration) { observe(m.feedLag, d) }

// RoundTrip counts one round trip to the log; op is one of few.
func (m *Metrics) RoundTrip(op string, d time.Duration) { observe(m.roundTrip.WithLabelValues(op), d) }

// Error counts one failure of the log; kind is one of few.
func (m *Metrics) Error(kind string) { m.logErrors.WithLabelValues(kind).Inc() }

// observe records a time. Clocks of two machines differ: below zero is zero.
func observe(h prometheus.Observer, d time.Duration) { h.Observe(max(d, 0).Seconds()) }

// watch adds what the broker is asked for at each scrape.
func (m *Metrics) watch(b *delivery.Broker) { m.registry.MustRegister(gauges{b}) }

// gauges is a moment's picture of a broker, taken once a scrape.
type gauges struct{ broker *delivery.Broker }

var (
	descSubscribers = prometheus.NewDesc("rejoin_subscribers", "Subscriptions open now.", nil, nil)
	descChannels    = prometheus.NewDesc("rejoin_active_channels", "Channels with at least one reader here.", nil, nil)
	descTails       = prometheus.NewDesc("rejoin_tails", "Channels whose recent messages are held in memory.", nil, nil)
	descBytes       = prometheus.NewDesc("rejoin_tail_bytes", "Bytes held by tails and pages.", nil, nil)
	descLogUp       = prometheus.NewDesc("rejoin_log_up", "1 when every part of the log answers, else 0.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSubscribers, descChannels, descTails, descBytes, descLogUp} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	s := g.broker.Stats()
	up := 1
	if s.Stale {
		up = 0
	}
	for d, v := range map[*prometheus.Desc]int{
		descSubscribers: s.Subscriptions, descChannels: s.Channels, descTails: s.Tails, descBytes: s.Bytes, descLogUp: up,
	} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
}
