package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// The report's measures in pixels.
const (
	reportWidth = 880
	plotLeft    = 76
	plotRight   = reportWidth - 24
	plotHeight  = 190
	plotTop     = 76
	plotGap     = 62
)

// line is one curve of a plot.
type line struct {
	name   string
	colour string
	at     func(*Sample) float64
}

// plot is one picture of the report.
type plot struct {
	title string
	unit  string
	lines []line
}

// plots are the pictures, top down. A curve without a value above zero is left
// out, and a picture without curves too.
var plots = []plot{
	{"delivered", "messages/s", []line{
		{"delivered", "#2563eb", func(s *Sample) float64 { return s.DeliveredPerS }},
	}},
	{"publish → deliver", "ms", []line{
		{"p50", "#16a34a", func(s *Sample) float64 { return s.P50 }},
		{"p99", "#ea580c", func(s *Sample) float64 { return s.P99 }},
		{"max", "#be123c", func(s *Sample) float64 { return s.Max }},
	}},
	{"server memory", "MB", []line{
		{"RSS", "#7c3aed", func(s *Sample) float64 { return mb(s.RSSKB) }},
	}},
}

// WriteReport draws a result's rate, latency and the server's memory over time
// as an SVG picture. Others beside it, such as its floor, are drawn dashed.
func WriteReport(w io.Writer, results ...*Result) error {
	b := &strings.Builder{}
	until := 1e-3
	for _, r := range results {
		if n := len(r.Series); n > 0 {
			until = max(until, r.Series[n-1].AtS)
		}
	}
	y := plotTop
	for _, p := range plots {
		if p.draw(b, results, until, y) {
			y += plotHeight + plotGap
		}
	}
	height := y - plotGap + 44
	r := results[0]
	head := &strings.Builder{}
	fmt.Fprintf(head, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="12" fill="#334155">`,
		reportWidth, height, reportWidth, height)
	fmt.Fprintf(head, "\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n")
	fmt.Fprintf(head, "<text x=\"%d\" y=\"26\" font-size=\"15\" font-weight=\"600\" fill=\"#0f172a\">%s</text>\n", 24, html.EscapeString(strings.TrimSpace(r.headline())))
	d := r.Latency
	fmt.Fprintf(head, "<text x=\"24\" y=\"46\">%s delivered, %s lost, %s repeated; p50 %.4g  p90 %.4g  p99 %.4g  p99.9 %.4g  max %.4g ms%s</text>\n",
		group(r.Delivered), group(r.Lost), group(r.Repeated), d.P50, d.P90, d.P99, d.P999, d.Max, besides(results[1:]))
	_, err := io.WriteString(w, head.String()+b.String()+fmt.Sprintf(
		"<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#64748b\">seconds from the first publish</text>\n</svg>\n", plotRight, height-12))
	return err
}

// besides says what is drawn dashed.
func besides(others []*Result) (s string) {
	for _, r := range others {
		if p := r.server(); p != nil {
			s += "; dashed: " + html.EscapeString(p.Name)
		}
	}
	return s
}

// draw adds the picture with its top at y; false when it has nothing to show.
func (p *plot) draw(b *strings.Builder, results []*Result, until float64, y int) bool {
	var top float64
	for _, r := range results {
		for i := range r.Series {
			for _, l := range p.lines {
				top = max(top, l.at(&r.Series[i]))
			}
		}
	}
	if top == 0 {
		return false
	}
	bottom := float64(y + plotHeight)
	top = niceStep(top/4) * math.Ceil(top/niceStep(top/4))
	x := func(s float64) float64 { return plotLeft + s/until*(plotRight-plotLeft) }
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" font-weight=\"600\" fill=\"#0f172a\">%s, %s</text>\n", plotLeft, y-8, p.title, p.unit)
	for v := 0.0; v <= top*1.001; v += niceStep(top / 4) {
		at := bottom - v/top*plotHeight
		fmt.Fprintf(b, "<path d=\"M%d %.1fH%d\" stroke=\"#e2e8f0\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#64748b\">%s</text>\n",
			plotLeft, at, plotRight, plotLeft-8, at+4, axisNumber(v))
	}
	for s, step := 0.0, niceStep(until/8); s <= until; s += step {
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#64748b\">%.4g</text>\n", x(s), bottom+18, s)
	}
	legend := plotRight
	for i := len(p.lines) - 1; i >= 0; i-- {
		l := p.lines[i]
		for n, r := range results {
			dash := ""
			if n > 0 {
				dash = ` stroke-dasharray="5 4" stroke-opacity=".7"`
			}
			fmt.Fprintf(b, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-linejoin=\"round\"%s points=\"", l.colour, dash)
			for j := range r.Series {
				s := &r.Series[j]
				fmt.Fprintf(b, "%.1f,%.1f ", x(s.AtS), bottom-l.at(s)/top*plotHeight)
			}
			b.WriteString("\"/>\n")
		}
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" font-weight=\"600\" fill=\"%s\">%s</text>\n", legend, y-8, l.colour, l.name)
		legend -= 14 + 7*len(l.name)
	}
	return true
}

// niceStep is the least of 1, 2, 5, 10, 20, 50 … and their tenths that is not
// below v.
func niceStep(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if n*unit >= v*0.999 {
			return n * unit
		}
	}
	return 10 * unit
}

// axisNumber is short: 1.5M, 200k, 0.25.
func axisNumber(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.4gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.4gk", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}
