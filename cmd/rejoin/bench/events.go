package bench

import (
	"bytes"
	"time"
)

// events reads text/event-stream (WHATWG HTML, section 9.2) that comes in
// pieces of any size. Lines end in LF alone, as the contract promises.
//
// Of each line and of each event's data only the first [maxKept] bytes are kept
// (stamps and told things are short); lengths are exact.
type events struct {
	line    []byte // the unfinished line
	lineLen int    // its whole length
	event   event
	taken   bool          // event was handed out: the next begins anew
	retry   time.Duration // the newest retry: field, 0 for none yet
}

// event is one dispatched event. Its slices are good until the next call.
type event struct {
	name    []byte // empty for a message
	data    []byte // the first maxKept bytes
	dataLen int
	id      []byte
	hasID   bool
	hasData bool
}

// maxKept is room for the ready of 100 channels.
const maxKept = 32 << 10

// reset forgets an unfinished line and event, as the end of a connection does.
func (e *events) reset() {
	e.line, e.lineLen, e.retry, e.taken = e.line[:0], 0, 0, false
	e.event.reset()
}

func (v *event) reset() {
	v.name, v.data, v.id = v.name[:0], v.data[:0], v.id[:0]
	v.dataLen, v.hasID, v.hasData = 0, false, false
}

// next reads on in p up to the end of the next event: with ok, it is in e.event
// (until next is called again) and rest is what follows it; else p is used up.
func (e *events) next(p []byte) (rest []byte, ok bool) {
	if e.taken {
		e.taken = false
		e.event.reset()
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			e.keep(p)
			return nil, false
		}
		line, n := p[:i], i
		p = p[i+1:]
		if e.lineLen > 0 {
			e.keep(line)
			line, n = e.line, e.lineLen
			e.line, e.lineLen = e.line[:0], 0
		}
		if n > 0 {
			e.field(line, n)
			continue
		}
		if e.event.hasData || e.event.hasID {
			e.taken = true
			return p, true
		}
		e.event.reset()
	}
	return nil, false
}

func (e *events) keep(p []byte) {
	e.line = append(e.line, p[:min(len(p), maxKept-len(e.line))]...)
	e.lineLen += len(p)
}

// field takes one line of n bytes, of which line is the beginning.
func (e *events) field(line []byte, n int) {
	name, value, _ := bytes.Cut(line, colon)
	skipped := len(line) - len(value)
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
		skipped++
	}
	v := &e.event
	switch string(name) {
	case "data":
		if v.hasData {
			v.addData(newline, 1)
		}
		v.hasData = true
		v.addData(value, n-skipped)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			v.id, v.hasID = append(v.id[:0], value...), true
		}
	case "event":
		v.name = append(v.name[:0], value...)
	case "retry":
		ms := int64(0)
		for _, c := range value {
			if c < '0' || c > '9' || ms > 1e9 {
				return
			}
			ms = ms*10 + int64(c-'0')
		}
		if len(value) > 0 {
			e.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

var colon, newline = []byte(":"), []byte("\n")

func (v *event) addData(p []byte, n int) {
	v.data = append(v.data, p[:min(len(p), max(0, maxKept-len(v.data)))]...)
	v.dataLen += n
}
