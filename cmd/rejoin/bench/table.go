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
	r.writeNotes(b)
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
	c.Floor.writeNotes(b)
	c.Server.writeNotes(b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) headline() string {
	s := fmt.Sprintf("%s  %s  %s subscribers, %s channels, %g messages/s of %s bytes for %gs",
		r.URL, r.Transport, group(int64(r.Subscribers)), group(int64(r.Channels)), r.Rate, group(int64(r.Size)), r.DurationS)
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

func processRows(results []*Result) (rows []row) {
	var names []string
	for _, r := range results {
		for _, p := range r.Processes {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	for _, name := range names {
		lines := []row{
			{label: name + " CPU"}, {label: name + " µs per delivery"},
			{label: name + " RSS MB"}, {label: name + " KB per connection"},
		}
		for _, r := range results {
			cells := []string{"", "", "", ""}
			if i := slices.IndexFunc(r.Processes, func(p ProcessUse) bool { return p.Name == name }); i >= 0 {
				p := r.Processes[i]
				cells = []string{
					fmt.Sprintf("%.2f s (%.0f%% of a core)", p.CPUS, 100*p.CPUS/r.Seconds),
					fmt.Sprintf("%.2f", p.USPerDelivery),
					fmt.Sprintf("before %.1f  connected %.1f  end %.1f  most %.1f",
						mb(p.RSSBeforeKB), mb(p.RSSConnectedKB), mb(p.RSSEndKB), mb(p.PeakKB)),
					fmt.Sprintf("%.1f", p.KBPerConnection),
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

func mb(kb int64) float64 { return float64(kb) / 1024 }

func (r *Result) writeNotes(b *strings.Builder) {
	if r.Interrupted {
		b.WriteString("\ninterrupted: the figures are of the part that ran\n")
	}
	for _, limit := range r.Generator.Limits {
		b.WriteString("\ngenerator: " + limit + "\n")
	}
	for _, f := range []struct{ what, text string }{{"first failure", r.Failure}, {"first failed publish", r.PublishFailed}} {
		if f.text != "" {
			b.WriteString("\n" + f.what + ": " + f.text + "\n")
		}
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
