package sse

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"rejoin/delivery"
	"rejoin/stream"
)

// Heartbeat is the sign of life: a comment, and no blank line, so that it
// dispatches nothing.
const Heartbeat = ":\n"

// paddingSize is how long the first comment is for clients whose proxy or XHR
// holds back the first 2 KiB.
const paddingSize = 2048

// AppendPadding adds a comment of 2 KiB.
func AppendPadding(dst []byte) []byte {
	dst = append(dst, ':')
	dst = append(dst, strings.Repeat(" ", paddingSize-2)...)
	return append(dst, '\n')
}

// AppendRetry adds the time after which a client is to reconnect.
func AppendRetry(dst []byte, d time.Duration) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, d.Milliseconds(), 10)
	return append(dst, "\n\n"...)
}

// Encoder writes the frames of one connection: it knows the connection's form
// and, with several channels, where it is in each.
type Encoder struct {
	form   delivery.Form
	encode func(*delivery.Record) []byte
	// the same as a chunk of HTTP/1.1
	chunkForm   delivery.Form
	encodeChunk func(*delivery.Record) []byte

	many    *stream.Positions // nil with one channel
	problem func(error) []byte
}

// NewEncoder makes an encoder for a connection that reads these channels.
// With asJSON data is the whole message, else its payload. problem writes an
// error in the contract's form.
func NewEncoder(channels []string, asJSON bool, problem func(error) []byte) *Encoder {
	e := &Encoder{problem: problem,
		form: delivery.FormSSE, encode: encodeRaw, chunkForm: delivery.FormSSEChunk, encodeChunk: encodeRawChunk}
	if asJSON {
		e.form, e.encode = delivery.FormSSEJSON, encodeJSON
		e.chunkForm, e.encodeChunk = delivery.FormSSEJSONChunk, encodeJSONChunk
	}
	if len(channels) > 1 {
		e.many = stream.NewPositions(channels)
	}
	return e
}

// Append adds the frame of an item to dst. Items come in the order they are
// sent, since each moves the connection's cursor.
func (e *Encoder) Append(dst []byte, it *delivery.Item) []byte {
	switch it.Kind {
	case delivery.Message:
		return e.appendMessage(dst, it)
	case delivery.Ready:
		return e.appendReady(dst, it.Ready)
	case delivery.Gap:
		dst = e.appendID(dst, it.Channel, it.Pos)
		dst = append(dst, "event: rejoin.gap\n"...)
		return appendObject(dst, it.Gap)
	case delivery.StateChange:
		dst = append(dst, "event: rejoin.state\n"...)
		return appendObject(dst, it.State)
	case delivery.End:
		dst = e.appendID(dst, it.Channel, it.Pos)
		dst = append(dst, "event: rejoin.end\n"...)
		return appendObject(dst, struct {
			Channel string    `json:"channel"`
			ID      stream.ID `json:"id"`
		}{it.Channel, it.Pos})
	case delivery.Move:
		dst = append(dst, "event: rejoin.move\n"...)
		return appendObject(dst, struct {
			Within int64 `json:"within"`
		}{it.Within.Milliseconds()})
	case delivery.Expired:
		return append(dst, "event: rejoin.expired\ndata: {}\n\n"...)
	case delivery.Error:
		return AppendError(dst, e.problem(it.Err))
	}
	return dst
}

// AppendError adds the error event around a problem, a JSON object in one line.
func AppendError(dst, problem []byte) []byte {
	dst = append(dst, "event: rejoin.error\n"...)
	return appendData(dst, problem)
}

// appendMessage adds the frame shared by all connections as it is, or, with
// several channels, behind the connection's own id line.
func (e *Encoder) appendMessage(dst []byte, it *delivery.Item) []byte {
	frame := it.Record.Frame(e.form, e.encode)
	if e.many == nil {
		return append(dst, frame...)
	}
	dst = e.appendID(dst, it.Channel, it.Pos)
	return append(dst, frame[bytes.IndexByte(frame, '\n')+1:]...)
}

// appendReady adds the position of every channel, and sets the cursor to it.
func (e *Encoder) appendReady(dst []byte, ready []delivery.ReadyChannel) []byte {
	cursor := ""
	for _, c := range ready {
		if e.many == nil {
			cursor = c.Cursor.String()
		} else {
			e.many.Set(c.Channel, c.Cursor)
		}
	}
	if e.many != nil {
		cursor = e.many.String()
	}
	dst = append(dst, "id: "...)
	dst = append(dst, cursor...)
	dst = append(dst, "\nevent: rejoin.ready\ndata: {\"channels\":{"...)
	for i, c := range ready {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = stream.AppendJSONString(dst, c.Channel)
		dst = append(dst, `:{"cursor":"`...)
		dst = c.Cursor.Append(dst)
		dst = append(dst, `","replay":`...)
		dst = strconv.AppendUint(dst, c.Replay, 10)
		dst = append(dst, '}')
	}
	dst = append(dst, `},"cursor":"`...)
	dst = append(dst, cursor...)
	return append(dst, "\"}\n\n"...)
}

// appendID moves the channel to pos and adds the id line: the position itself,
// or the whole cursor of several channels.
func (e *Encoder) appendID(dst []byte, channel string, pos stream.ID) []byte {
	dst = append(dst, "id: "...)
	if e.many == nil {
		dst = pos.Append(dst)
	} else {
		e.many.Set(channel, pos)
		dst = e.many.Append(dst)
	}
	return append(dst, '\n')
}

// encodeRaw is the frame of [delivery.FormSSE], the id line included: the
// payload as data.
func encodeRaw(r *delivery.Record) []byte {
	lines := strings.Count(r.Payload, "\n") + strings.Count(r.Payload, "\r") + 1
	dst := make([]byte, 0, recordOverhead+len(r.Event)+len(r.Payload)+lines*len("data: "))
	dst = appendHead(dst, r)
	return appendText(dst, r.Payload)
}

// encodeJSON is the frame of [delivery.FormSSEJSON], the id line included: the
// whole message as data.
func encodeJSON(r *delivery.Record) []byte {
	dst := make([]byte, 0, 2*recordOverhead+len(r.Channel)+2*len(r.Event)+len(r.Key)+len(r.Payload)+len(r.Payload)/8)
	dst = appendHead(dst, r)
	dst = append(dst, "data: "...)
	dst = r.AppendJSON(dst, r.Channel)
	return append(dst, "\n\n"...)
}

// recordOverhead is room for the id line and the names of a frame's fields.
const recordOverhead = 64

// appendHead adds the id line and the event line. A publish with a line break in
// its event is refused; of an entry that another program wrote into the log, the
// event is left out rather than let it write lines of its own.
func appendHead(dst []byte, r *delivery.Record) []byte {
	dst = append(dst, "id: "...)
	dst = r.ID.Append(dst)
	dst = append(dst, '\n')
	if r.Event != "" && !strings.ContainsAny(r.Event, "\r\n\x00") {
		dst = append(dst, "event: "...)
		dst = append(dst, r.Event...)
		dst = append(dst, '\n')
	}
	return dst
}

// appendText adds text as data, one line for each of its lines, and ends the
// frame. CR LF and CR alone become LF: in an event stream each of them ends a
// line.
func appendText(dst []byte, text string) []byte {
	for {
		dst = append(dst, "data: "...)
		end := strings.IndexAny(text, "\r\n")
		if end < 0 {
			dst = append(dst, text...)
			return append(dst, "\n\n"...)
		}
		dst = append(dst, text[:end]...)
		dst = append(dst, '\n')
		if text[end] == '\r' && end+1 < len(text) && text[end+1] == '\n' {
			end++
		}
		text = text[end+1:]
	}
}

// appendObject adds v as JSON, which has no line breaks, and ends the frame.
func appendObject(dst []byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of plain fields: cannot happen
	}
	return appendData(dst, b)
}

func appendData(dst, line []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, line...)
	return append(dst, "\n\n"...)
}
