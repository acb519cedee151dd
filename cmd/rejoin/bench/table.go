package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// row is one line of the table: a cell for each result.
type row struct {
	label string
	cells []string
}

// WriteTable prints one result.
func (r *Result) WriteTable(w io.Writer) error {
	b := &strings.Builder{}
	b.WriteString(r.headline())
	writeRows(b, tableRows([]*Result{r}))
	r.writeNotes(b, "")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteTable prints floor and server side by side, and their ratios.
func (c *Comparison) WriteTable(w io.Writer) error {
	b := &strings.Builder{}
	b.WriteString(c.Server.headline())
	rows := []row{{"", []string{"floor", "server"}}}
	rows = append(rows, tableRows([]*Result{c.Floor, c.Server})...)
	if c.RatioUSPerDelivery > 0 {
		rows = append(rows, row{"µs per delivery, server / floor", []string{"", fmt.Sprintf("%.2f", c.RatioUSPerDelivery)}})
	}
	if c.RatioKBPerConnection > 0 {
		rows = append(rows, row{"KB per connection, server / floor", []string{"", fmt.Sprintf("%.2f", c.RatioKBPerConnection)}})
	}
	writeRows(b, rows)
	c.Floor.writeNotes(b, "floor: ")
	c.Server.writeNotes(b, "server: ")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) headline() string {
	channels := "1 channel"
	if r.Channels > 1 {
		channels = group(int64(r.Channels)) + " channels"
	}
	if r.ChannelsPerConnection > 1 {
		channels += fmt.Sprintf(", %d on each connection", r.ChannelsPerConnection)
	}
	s := fmt.Sprintf("%s  %s  %s subscribers, %s, %g messages/s of %s bytes for %gs",
		strings.Join(r.URLs, ", "), r.Transport, group(int64(r.Subscribers)), channels, r.Rate, group(int64(r.Size)), r.DurationS)
	if r.LifeS > 0 {
		s += fmt.Sprintf(", each connection lives %gs", r.LifeS)
	}
	if r.SlowAsked > 0 {
		s += fmt.Sprintf(", %s slow readers", group(int64(r.SlowAsked)))
	}
	return s + "\n\n"
}

func tableRows(results []*Result) (rows []row) {
	add := func(label string, cell func(*Result) string) {
		line := row{label: label}
		for _, r := range results {
			line.cells = append(line.cells, cell(r))
		}
		rows = append(rows, line)
	}
	number := func(label string, n func(*Result) int64) {
		add(label, func(r *Result) string { return group(n(r)) })
	}
	// sometimes shows a line only when there is something to show.
	sometimes := func(label string, n func(*Result) int64) {
		if slices.ContainsFunc(results, func(r *Result) bool { return n(r) != 0 }) {
			number(label, n)
		}
	}
	number("connections", func(r *Result) int64 { return r.Connections })
	number("reconnects", func(r *Result) int64 { return r.Reconnects })
	sometimes("connections dropped", func(r *Result) int64 { return r.Dropped })
	sometimes("connections moved", func(r *Result) int64 { return r.Moved })
	sometimes("slow readers cut", func(r *Result) int64 { return r.SlowCut })
	number("published", func(r *Result) int64 { return r.Published })
	sometimes("publishes refused", func(r *Result) int64 { return r.Refused })
	sometimes("publishes of unknown outcome", func(r *Result) int64 { return r.Unknown })
	number("expected", func(r *Result) int64 { return r.Expected })
	number("delivered", func(r *Result) int64 { return r.Delivered })
	number("lost", func(r *Result) int64 { return r.Lost })
	number("repeated", func(r *Result) int64 { return r.Repeated })
	number("out of order", func(r *Result) int64 { return r.OutOfOrder })
	number("gaps told", func(r *Result) int64 { return r.Gaps })
	sometimes("messages in told gaps", func(r *Result) int64 { return r.InGaps })
	sometimes("again after a told reset", func(r *Result) int64 { return r.AfterReset })
	sometimes("against the contract", func(r *Result) int64 { return r.Violations })
	sometimes("messages of others", func(r *Result) int64 { return r.Foreign })
	add("rate", func(r *Result) string {
		return fmt.Sprintf("%s/s over %.1f s", group(int64(r.DeliveredPerS)), r.Seconds)
	})
	add("publish→deliver ms", func(r *Result) string {
		d := r.Latency
		return fmt.Sprintf("p50 %.2f  p90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f", d.P50, d.P90, d.P99, d.P999, d.Max)
	})
	add("publish call ms", func(r *Result) string {
		return fmt.Sprintf("p50 %.2f  p99 %.2f", r.PublishCall.P50, r.PublishCall.P99)
	})
	return append(rows, processRows(results)...)
}

// processRows has four rows for each process. Side by side, the two that are
// compared share their rows.
func processRows(results []*Result) (rows []row) {
	name := func(r *Result, i int) string {
		if p := &r.Processes[i]; len(results) == 1 || p != r.server() {
			return p.Name
		}
		return serverName
	}
	var names []string
	for _, r := range results {
		for i := range r.Processes {
			if n := name(r, i); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for _, n := range names {
		lines := []row{
			{label: n + " CPU"}, {label: n + " µs per delivery"},
			{label: n + " RSS MB"}, {label: n + " KB per connection"},
		}
		for _, r := range results {
			cells := make([]string, len(lines))
			for i, p := range r.Processes {
				if name(r, i) == n {
					cells = p.cells(r.Seconds)
				}
			}
			for i := range lines {
				lines[i].cells = append(lines[i].cells, cells[i])
			}
		}
		rows = append(rows, lines...)
	}
	own := row{label: "generator CPU"}
	for _, r := range results {
		own.cells = append(own.cells, fmt.Sprintf("%.2f s (%.0f%% of a core)", r.Generator.CPUS, 100*r.Generator.CPUS/r.Seconds))
	}
	return append(rows, own)
}

// cells are CPU, CPU per delivery, memory and memory per connection.
func (p *ProcessUse) cells(seconds float64) []string {
	kb := fmt.Sprintf("%.1f", p.KBPerConnection)
	if p.Used {
		kb = "not measured"
	}
	return []string{
		fmt.Sprintf("%.2f s (%.0f%% of a core)", p.CPUS, 100*p.CPUS/seconds),
		fmt.Sprintf("%.2f", p.USPerDelivery),
		fmt.Sprintf("before %.1f  connected %.1f  end %.1f  most %.1f",
			mb(p.RSSBeforeKB), mb(p.RSSConnectedKB), mb(p.RSSEndKB), mb(p.PeakKB)),
		kb,
	}
}

func mb(kb int64) float64 { return float64(kb) / 1024 }

// writeNotes adds what the figures do not say, a line each; name says whose
// result it is where there are two.
func (r *Result) writeNotes(b *strings.Builder, name string) {
	var notes []string
	if r.Interrupted {
		notes = append(notes, "interrupted: the figures are of the part that ran")
	}
	for _, limit := range r.Generator.Limits {
		notes = append(notes, "the generator, not only the server, was a limit: "+limit)
	}
	if p := r.server(); p != nil && p.Used {
		notes = append(notes, fmt.Sprintf("%s had been used before this run: KB per connection needs a fresh process", p.Name))
	}
	if r.Failure != "" {
		notes = append(notes, "first failure: "+r.Failure)
	}
	if r.PublishFailed != "" {
		notes = append(notes, "first failed publish: "+r.PublishFailed)
	}
	for i, note := range notes {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString("  " + name + note + "\n")
	}
}

// writeRows prints rows in columns, each as wide as its widest cell.
func writeRows(b *strings.Builder, rows []row) {
	var widths []int
	cells := func(r row) []string { return append([]string{r.label}, r.cells...) }
	for _, r := range rows {
		for i, cell := range cells(r) {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		line := " "
		for i, cell := range cells(r) {
			line += " " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// group writes a number with commas: 1,234,567.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
