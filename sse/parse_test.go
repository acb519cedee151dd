package sse

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// event is what an EventSource would dispatch.
type event struct {
	Type, Data, ID string
}

// parser reads an event stream as WHATWG HTML, 9.2.6 "Interpreting an event
// stream", says, step by step, without a look at how frames are written.
type parser struct {
	events   []event
	comments []string
	retry    int // last reconnection time, -1 before the first

	data, eventType, lastID string
	idBuffer                string
}

func parse(stream string) *parser {
	p := &parser{retry: -1}
	// "Streams must be decoded using the UTF-8 decode algorithm", which replaces
	// bad bytes and strips one leading byte order mark.
	if !utf8.ValidString(stream) {
		stream = strings.ToValidUTF8(stream, "\uFFFD")
	}
	stream = strings.TrimPrefix(stream, "\uFEFF")
	// "Lines must be separated by either a CRLF pair, a single LF, or a single
	// CR." What follows the last separator is not a whole line.
	line := []byte{}
	for i := 0; i < len(stream); i++ {
		switch stream[i] {
		case '\r':
			if i+1 < len(stream) && stream[i+1] == '\n' {
				i++
			}
			p.line(string(line))
			line = line[:0]
		case '\n':
			p.line(string(line))
			line = line[:0]
		default:
			line = append(line, stream[i])
		}
	}
	return p
}

func (p *parser) line(s string) {
	if s == "" {
		p.dispatch()
		return
	}
	colon := -1
	for i := range len(s) {
		if s[i] == ':' {
			colon = i
			break
		}
	}
	switch {
	case colon == 0:
		p.comments = append(p.comments, s[1:])
	case colon > 0:
		value := s[colon+1:]
		if value != "" && value[0] == ' ' {
			value = value[1:]
		}
		p.field(s[:colon], value)
	default:
		p.field(s, "")
	}
}

func (p *parser) field(name, value string) {
	switch name {
	case "event":
		p.eventType = value
	case "data":
		p.data += value + "\n"
	case "id":
		for i := range len(value) {
			if value[i] == 0 {
				return
			}
		}
		p.idBuffer = value
	case "retry":
		for i := range len(value) {
			if value[i] < '0' || value[i] > '9' {
				return
			}
		}
		if n, err := strconv.Atoi(value); err == nil {
			p.retry = n
		}
	}
}

func (p *parser) dispatch() {
	p.lastID = p.idBuffer
	if p.data == "" {
		p.eventType = ""
		return
	}
	e := event{Type: "message", Data: p.data[:len(p.data)-1], ID: p.lastID}
	if p.eventType != "" {
		e.Type = p.eventType
	}
	p.events = append(p.events, e)
	p.data, p.eventType = "", ""
}
