package ws

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/gobwas/ws"

	"rejoin/delivery"
	"rejoin/stream"
)

// Encoder writes the text frames of one connection.
type Encoder struct {
	retry   time.Duration
	problem func(error) []byte
}

// NewEncoder makes an encoder that tells the client to wait for retry before it
// reconnects. problem writes an error in the contract's form.
func NewEncoder(retry time.Duration, problem func(error) []byte) *Encoder {
	return &Encoder{retry: retry, problem: problem}
}

// Frame is the frame of an item. That of a message is shared by all connections:
// nobody may change it.
func (e *Encoder) Frame(it *delivery.Item) []byte {
	switch it.Kind {
	case delivery.Message:
		return it.Record.Frame(delivery.FormWS, encodeMessage)
	case delivery.Ready:
		return textFrame(e.appendReady(nil, it.Ready))
	case delivery.Gap:
		b := appendType(nil, "gap", marshal(it.Gap))
		b = append(b, `,"cursor":"`...)
		b = it.Pos.Append(b)
		return textFrame(append(b, `"}`...))
	case delivery.StateChange:
		return textFrame(append(appendType(nil, "state", marshal(it.State)), '}'))
	case delivery.Move:
		b := strconv.AppendInt([]byte(`{"type":"move","within":`), it.Within.Milliseconds(), 10)
		return textFrame(append(b, '}'))
	case delivery.End:
		b := stream.AppendJSONString([]byte(`{"type":"end","channel":`), it.Channel)
		b = append(b, `,"id":"`...)
		b = it.Pos.Append(b)
		return textFrame(append(b, `"}`...))
	case delivery.Subscribed:
		b := stream.AppendJSONString([]byte(`{"type":"subscribed","channel":`), it.Channel)
		b = append(b, ',')
		b = appendPosition(b, it.Ready[0])
		return textFrame(appendRef(b, it.Tag))
	case delivery.Unsubscribed:
		b := stream.AppendJSONString([]byte(`{"type":"unsubscribed","channel":`), it.Channel)
		return textFrame(appendRef(b, it.Tag))
	case delivery.Expired:
		return expiredFrame
	case delivery.Error:
		return e.Error(it.Err, nil)
	}
	return nil
}

// Error is the frame of an error; ref is that of the client's frame it answers.
// Of the problem's members only its type, which is about:blank, is left out: the
// name is the frame's own.
func (e *Encoder) Error(err error, ref json.RawMessage) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(e.problem(err), &members) != nil {
		members = nil
	}
	delete(members, "type")
	return textFrame(appendRef(appendType(nil, "error", marshal(members)), ref))
}

// expiredFrame tells that the token ran out.
var expiredFrame = textFrame([]byte(`{"type":"expired"}`))

// authFrame answers a token that was taken.
func authFrame(ref json.RawMessage) []byte {
	return textFrame(appendRef([]byte(`{"type":"auth"`), ref))
}

// encodeMessage is the frame of [delivery.FormWS].
func encodeMessage(r *delivery.Record) []byte {
	size := len(r.Channel) + 2*len(r.Event) + len(r.Key) + len(r.Payload) + len(r.Payload)/8
	dst := make([]byte, ws.MaxHeaderSize, ws.MaxHeaderSize+messageOverhead+size)
	dst = append(dst, `{"type":"message",`...)
	dst = r.AppendJSONFields(dst, r.Channel)
	dst = append(dst, '}')
	// The length is known only now: the header goes right before the text.
	var head [ws.MaxHeaderSize]byte
	h := appendHeader(head[:0], ws.OpText, len(dst)-ws.MaxHeaderSize)
	dst = dst[ws.MaxHeaderSize-len(h):]
	copy(dst, h)
	return dst
}

// messageOverhead is room for the names of a message's fields.
const messageOverhead = 128

func (e *Encoder) appendReady(dst []byte, ready []delivery.ReadyChannel) []byte {
	names := make([]string, len(ready))
	for i, c := range ready {
		names[i] = c.Channel
	}
	cursor := stream.NewPositions(names)
	dst = append(dst, `{"type":"ready","channels":{`...)
	for i, c := range ready {
		cursor.Set(c.Channel, c.Cursor)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = stream.AppendJSONString(dst, c.Channel)
		dst = append(dst, ":{"...)
		dst = appendPosition(dst, c)
		dst = append(dst, '}')
	}
	dst = append(dst, `},"cursor":"`...)
	dst = cursor.Append(dst)
	dst = append(dst, `","retry":`...)
	dst = strconv.AppendInt(dst, e.retry.Milliseconds(), 10)
	return append(dst, '}')
}

func appendPosition(dst []byte, c delivery.ReadyChannel) []byte {
	dst = append(dst, `"cursor":"`...)
	dst = c.Cursor.Append(dst)
	dst = append(dst, `","replay":`...)
	return strconv.AppendUint(dst, c.Replay, 10)
}

// appendType begins an object with its type and the members of another object,
// and leaves it open.
func appendType(dst []byte, name string, object []byte) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, name...)
	dst = append(dst, '"')
	if members := object[1 : len(object)-1]; len(members) > 0 {
		dst = append(dst, ',')
		dst = append(dst, members...)
	}
	return dst
}

// appendRef adds the ref of the client's frame, if it had one, and ends the
// object.
func appendRef(dst []byte, tag any) []byte {
	if ref, _ := tag.(json.RawMessage); len(ref) > 0 {
		dst = append(dst, `,"ref":`...)
		dst = append(dst, ref...)
	}
	return append(dst, '}')
}

// marshal is v, a struct or a map, as a JSON object.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil || len(b) < 2 || b[0] != '{' {
		return []byte("{}") // plain fields and a problem's members: cannot happen
	}
	return b
}

func textFrame(text []byte) []byte { return appendFrame(nil, ws.OpText, text) }

// appendFrame adds a whole frame: final and unmasked (RFC 6455, section 5.2).
func appendFrame(dst []byte, op ws.OpCode, payload []byte) []byte {
	return append(appendHeader(dst, op, len(payload)), payload...)
}

// appendHeader adds the header of a frame with a payload of n bytes.
func appendHeader(dst []byte, op ws.OpCode, n int) []byte {
	dst = append(dst, 0x80|byte(op))
	switch {
	case n <= ws.MaxControlFramePayloadSize:
		return append(dst, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
}

// appendClose adds a close frame; code 0 is one without a code.
func appendClose(dst []byte, code ws.StatusCode, reason string) []byte {
	if code == 0 {
		return appendFrame(dst, ws.OpClose, nil)
	}
	return appendFrame(dst, ws.OpClose, ws.NewCloseFrameBody(code, reason))
}

// frameEnd is where the frame ends that byte n stands in, or n itself between
// two frames. b is whole frames of ours.
func frameEnd(b []byte, n int) int {
	end := 0
	for end < n {
		switch size := int(b[end+1]); size {
		case 126:
			end += 4 + int(binary.BigEndian.Uint16(b[end+2:]))
		case 127:
			end += 10 + int(binary.BigEndian.Uint64(b[end+2:]))
		default:
			end += 2 + size
		}
	}
	return end
}
