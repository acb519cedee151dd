package main

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"rejoin/client"
	"rejoin/stream"
)

// printer writes what a subscription yields: messages to standard output, the
// rest to standard error.
type printer struct {
	out, err io.Writer
	json     bool
	person   bool // standard output is a terminal
	colour   bool // with colours
	watched  bool // standard error is a terminal
	errs     bool // with colours
	names    bool // several channels: say whose a message is
	quiet    bool

	cursor string // behind what was printed
	away   bool   // it was told that there is no connection
	stale  bool   // it was told that the log is away
	ready  bool   // once
	line   []byte // used again
}

func newPrinter(out, err io.Writer, s *subscribing, names bool) *printer {
	return &printer{
		out: out, err: err, json: s.json, names: names, quiet: s.quiet,
		person: terminal(out) && !s.json, colour: colours(out), watched: terminal(err), errs: colours(err),
	}
}

// print writes one event. Its error is of standard output.
func (p *printer) print(event client.Event) error {
	if cursor := event.Cursor(); cursor != "" {
		p.cursor = cursor
	}
	switch e := event.(type) {
	case client.Message:
		return p.message(e)
	case client.Ready:
		switch {
		case p.away:
			p.note("connected again")
		case !p.ready && p.watched:
			p.note("following; Ctrl-C ends it")
		}
		p.ready, p.away = true, false
	case client.Gap:
		p.alarm(p.about(e.Channel) + describe(e))
	case client.State:
		switch {
		case e.Name == client.Stale && !p.stale:
			p.note("the server's log does not answer: messages may be late")
			p.stale = true
		case e.Name == client.Live && p.stale:
			p.note("the log answers again")
			p.stale = false
		}
	case client.End:
		p.note(e.Channel + " has ended")
	case client.Disconnected:
		if !p.away {
			p.note("not connected: " + plainly(e.Err) + ": trying again")
		}
		p.away = true
	}
	return nil
}

// message writes a message: in a pipe its payload alone.
func (p *printer) message(m client.Message) error {
	line := p.line[:0]
	switch {
	case p.json:
		entry := stream.Entry{ID: m.ID, Payload: m.Payload, Event: m.Event, Key: m.Key}
		line = append(line, '{')
		line = entry.AppendJSONFields(line, m.Channel)
		line = append(line, `,"cursor":"`...)
		line = append(line, m.Cursor()...)
		line = append(line, `"}`...)
	case p.person:
		line = p.paint(line, dim, m.Time.Local().Format("15:04:05.000"))
		line = append(line, ' ')
		if p.names {
			line = append(p.paint(line, tint(m.Channel), m.Channel), ' ')
		}
		if m.Event != "" {
			line = append(p.paint(line, dim, "["+harmless(m.Event)+"]"), ' ')
		}
		line = append(line, harmless(m.Payload)...)
	default:
		line = append(line, m.Payload...)
	}
	line = append(line, '\n')
	if p.line = line; cap(line) > 1<<20 {
		p.line = nil
	}
	_, err := p.out.Write(line)
	return err
}

// about begins a line about one channel of several.
func (p *printer) about(channel string) string {
	if !p.names {
		return ""
	}
	return channel + ": "
}

// note tells something on standard error, alarm what must not be missed.
func (p *printer) note(text string) {
	if !p.quiet {
		p.tell(dim, text)
	}
}

func (p *printer) alarm(text string) { p.tell(yellow, text) }

func (p *printer) tell(colour int, text string) {
	text = "rejoin: " + harmless(text)
	if p.errs {
		text = fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, text)
	}
	fmt.Fprintln(p.err, text)
}

// interrupted says how to go on.
func (p *printer) interrupted() {
	if p.cursor != "" {
		p.note("go on from here with --from " + p.cursor)
	}
}

// Colours of ECMA-48, SGR.
const (
	dim    = 2
	yellow = 33
)

// tint is a channel's own colour.
func tint(channel string) int {
	h := fnv.New32a()
	_, _ = io.WriteString(h, channel)
	return [...]int{32, 34, 35, 36, 92, 94, 95, 96}[h.Sum32()%8]
}

func (p *printer) paint(line []byte, colour int, text string) []byte {
	if !p.colour {
		return append(line, text...)
	}
	return fmt.Appendf(line, "\x1b[%dm%s\x1b[0m", colour, text)
}

// harmless is a text for a terminal: what would command it, such as an escape
// sequence in a payload, is shown instead.
func harmless(s string) string {
	clean := func(r rune) bool { return r == '\n' || r == '\t' || !unicode.IsControl(r) && !bidi(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if clean(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// bidi reports whether r changes the direction of what is around it.
func bidi(r rune) bool { return '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069' }
