package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

func TestMetrics(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 3 {
		w.publish("secret-channel", strings.Repeat("secret", i))
	}
	_, in := w.events("channel=secret-channel&lastEventId=earliest")
	for range 3 {
		until(t, in, "data: secret")
		if in.Text() == "data: secretsecret" {
			break
		}
	}
	w.api.metrics.RoundTrip("append", 3*time.Millisecond)
	w.api.metrics.Error("unavailable")
	w.api.metrics.GapTold(stream.Reset)
	w.api.metrics.Arrived(-time.Second) // clocks differ

	var body string
	scrape := func() string {
		a := w.request("GET", w.admin+"/metrics", http.NoBody)
		require.Equal(t, 200, a.StatusCode)
		return a.body
	}
	// The last write is counted behind what its client has seen.
	require.Eventually(t, func() bool {
		body = scrape()
		return strings.Contains(body, "rejoin_delivered_total 3\n")
	}, 5*time.Second, 10*time.Millisecond)
	for _, line := range []string{
		"rejoin_subscribers 1", "rejoin_active_channels 1", "rejoin_log_up 1",
		"rejoin_appended_total 3", "rejoin_delivered_total 3",
		`rejoin_gaps_total{reason="reset"} 1`, `rejoin_gaps_total{reason="trimmed"} 0`,
		"rejoin_catch_up_reads_total ", `rejoin_log_errors_total{kind="unavailable"} 1`,
		`rejoin_redis_round_trip_seconds_count{op="append"} 1`,
		"rejoin_feed_lag_seconds_count ", "rejoin_published_to_arrived_seconds_bucket{le=", "rejoin_arrived_to_delivered_seconds_bucket{le=",
		`rejoin_problems_total{code="bad_request"} 0`, "go_goroutines ", "process_open_fds ",
	} {
		require.Contains(t, body, "\n"+line)
	}
	require.NotContains(t, body, "secret")
}

// What is for operators is not on the public listener, and the other way round.
// Holds G72.
func TestListenersAreApart(t *testing.T) {
	w := newWorld(t, Options{})
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		w.do("GET", path, "").problem(t, 404, "not_found")
		require.Equal(t, 200, w.request("GET", w.admin+path, http.NoBody).StatusCode, path)
	}
	w.request("GET", w.admin+"/v1/sse?channel=a", http.NoBody).problem(t, 404, "not_found")
	w.request("POST", w.admin+"/metrics", http.NoBody).problem(t, 405, "method_not_allowed")
}
