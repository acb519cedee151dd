package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Process is a process to be measured: by its id on this machine, or by the
// metrics it serves.
type Process struct {
	Name string
	PID  int
	URL  string // of its metrics in Prometheus' text format; used when PID is 0
}

// serverName is the name of the process whose figures are compared.
const serverName = "server"

// ParseProcess reads "name=PID".
func ParseProcess(s string) (Process, error) {
	name, number, ok := strings.Cut(s, "=")
	pid, err := strconv.Atoi(number)
	if !ok || name == "" || err != nil || pid <= 0 {
		return Process{}, fmt.Errorf("--pid %q: want name=PID, as in server=4242", s)
	}
	return Process{Name: name, PID: pid}, nil
}

// ParseMetricsURL takes the URL of the server's metrics, with or without its
// path.
func ParseMetricsURL(s string) (Process, error) {
	t, err := resolve(s)
	if err != nil {
		return Process{}, errors.New(strings.Replace(err.Error(), "--url", "--metrics-url", 1))
	}
	if t.path == "" {
		s = strings.TrimRight(s, "/") + "/metrics"
	}
	return Process{Name: serverName, URL: s}, nil
}

// serverOf is the process named "server", else the first; nil without any.
func serverOf(all []Process) *Process {
	for i := range all {
		if all[i].Name == serverName {
			return &all[i]
		}
	}
	if len(all) > 0 {
		return &all[0]
	}
	return nil
}

// read is what the process has used so far.
func (p *Process) read() (u usage, err error) {
	if p.PID != 0 {
		if u, err = readProcess(p.PID); err != nil {
			err = fmt.Errorf("--pid %s=%d: %w", p.Name, p.PID, err)
		}
		return u, err
	}
	if u, err = readMetrics(p.URL); err != nil {
		err = fmt.Errorf("--metrics-url %s: %w", p.URL, err)
	}
	return u, err
}

// Bounds of a look at metrics.
const (
	metricsTimeout = 5 * time.Second
	maxMetrics     = 4 << 20
)

// metricsClient keeps no connection: a look is rare.
var metricsClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: metricsTimeout}

// readMetrics reads the CPU time and memory that every Prometheus client library
// tells of its process. The most memory ever is not among them.
func readMetrics(url string) (u usage, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return u, err
	}
	res, err := metricsClient.Do(req)
	if err != nil {
		return u, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return u, fmt.Errorf("it answers %s", res.Status)
	}
	found := 0
	for lines := bufio.NewScanner(io.LimitReader(res.Body, maxMetrics)); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		switch {
		case err != nil:
		case name == "process_cpu_seconds_total":
			u.cpu = time.Duration(value * float64(time.Second))
			found++
		case name == "process_resident_memory_bytes":
			u.rssKB = int64(value) / 1024
			found++
		}
	}
	if found != 2 {
		return u, errors.New("it does not tell process_cpu_seconds_total and process_resident_memory_bytes: is it the admin listener's /metrics?")
	}
	return u, nil
}
