package ws

import (
	"encoding/binary"
	"iter"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// MaxMessage is the largest message a client may send, in bytes.
const MaxMessage = 64 << 10

// Message is a whole message of a client, its fragments put together, or a
// control frame. The payload is unmasked.
type Message struct {
	Op      ws.OpCode // OpText, OpBinary, OpPing, OpPong or OpClose
	Payload []byte    // the receiver's to keep
}

// Violation is a fault of the client's against RFC 6455. The connection is
// closed with its Code (section 7.4.1).
type Violation struct {
	Code   ws.StatusCode // 1002, 1007 or 1009
	Reason string
}

func (v *Violation) Error() string { return v.Reason }

// Reader makes messages of the bytes that a client sends, however they are cut.
// It holds at most a message's worth of what it was given, and nothing between
// two messages. The zero value is a reader at the start of a connection.
type Reader struct {
	head   [ws.MaxHeaderSize]byte
	n      int        // bytes of head that are there
	body   bool       // head is whole, its payload comes
	header ws.Header  // as it stands in head
	got    int        // bytes of the payload that are there
	frame  []byte     // of a control frame, which may stand between fragments
	text   []byte     // of the data message so far
	op     ws.OpCode  // of the data message
	state  ws.State   // whether fragments are still to come
	failed *Violation // nothing more is read
}

// Messages takes the next bytes and yields what they complete. An error is a
// [*Violation] and the last thing there is.
func (r *Reader) Messages(b []byte) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for len(b) > 0 && r.failed == nil {
			if !r.body {
				b = r.takeHead(b)
			}
			if !r.body {
				continue
			}
			b = r.takePayload(b)
			if r.got < int(r.header.Length) {
				continue
			}
			if m, whole := r.finish(); whole && r.failed == nil && !yield(m, nil) {
				return
			}
		}
		if r.failed != nil {
			yield(Message{}, r.failed)
		}
	}
}

// fail notes a violation.
func (r *Reader) fail(code ws.StatusCode, reason string) { r.failed = &Violation{code, reason} }

// takeHead takes bytes of a header, and checks it as soon as it can be.
func (r *Reader) takeHead(b []byte) (rest []byte) {
	for r.failed == nil {
		need := 2
		if r.n >= 2 {
			need = r.headSize()
		}
		k := copy(r.head[r.n:need], b)
		r.n, b = r.n+k, b[k:]
		switch {
		case r.n < need:
			return b
		case need == 2:
			r.checkHead()
		default:
			r.endHead()
			return b
		}
	}
	return b
}

// headSize is the size of the header whose first two bytes are there.
func (r *Reader) headSize() int {
	switch r.head[1] & 0x7f {
	case 126:
		return 2 + 2 + 4
	case 127:
		return 2 + 8 + 4
	}
	return 2 + 4
}

// checkHead reads the first two bytes, which hold all the rules but the limit.
func (r *Reader) checkHead() {
	r.header = ws.Header{
		Fin:    r.head[0]&0x80 != 0,
		Rsv:    r.head[0] & 0x70 >> 4,
		OpCode: ws.OpCode(r.head[0] & 0x0f),
		Masked: r.head[1]&0x80 != 0,
		Length: int64(r.head[1] & 0x7f),
	}
	if err := ws.CheckHeader(r.header, r.state|ws.StateServerSide); err != nil {
		r.fail(ws.StatusProtocolError, err.Error())
	}
}

// endHead reads the length and the mask.
func (r *Reader) endHead() {
	length := uint64(r.header.Length)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(r.head[2:]))
	case 127:
		length = binary.BigEndian.Uint64(r.head[2:])
	}
	switch {
	case length>>63 != 0:
		r.fail(ws.StatusProtocolError, "the highest bit of a length is not 0")
		return
	case length > MaxMessage || len(r.text)+int(length) > MaxMessage && r.header.OpCode.IsData():
		r.fail(ws.StatusMessageTooBig, "a message may have 64 KiB")
		return
	}
	r.header.Length = int64(length)
	copy(r.header.Mask[:], r.head[r.n-4:])
	r.body, r.got = true, 0
}

// takePayload takes bytes of a payload.
func (r *Reader) takePayload(b []byte) (rest []byte) {
	to := &r.text
	if r.header.OpCode.IsControl() {
		to = &r.frame
	}
	k := min(len(b), int(r.header.Length)-r.got)
	from := len(*to)
	*to = append(*to, b[:k]...)
	ws.Cipher((*to)[from:], r.header.Mask, r.got)
	r.got += k
	return b[k:]
}

// finish ends a frame; whole is false for a fragment that is not the last.
func (r *Reader) finish() (m Message, whole bool) {
	r.n, r.body = 0, false
	if r.header.OpCode.IsControl() {
		m = Message{r.header.OpCode, r.frame}
		r.frame = nil
		if m.Op == ws.OpClose {
			r.checkClose(m.Payload)
		}
		return m, true
	}
	if r.header.OpCode != ws.OpContinuation {
		r.op = r.header.OpCode
	}
	if !r.header.Fin {
		r.state = r.state.Set(ws.StateFragmented)
		return Message{}, false
	}
	r.state = r.state.Clear(ws.StateFragmented)
	m = Message{r.op, r.text}
	r.text = nil
	if m.Op == ws.OpText && !utf8.Valid(m.Payload) {
		r.fail(ws.StatusInvalidFramePayloadData, "a text message is not UTF-8")
	}
	return m, true
}

// checkClose checks the payload of a close frame (sections 5.5.1 and 7.4).
func (r *Reader) checkClose(payload []byte) {
	if len(payload) == 0 {
		return
	}
	if len(payload) == 1 {
		r.fail(ws.StatusProtocolError, "a close frame has half a code")
		return
	}
	code, reason := ws.ParseCloseFrameData(payload)
	switch err := ws.CheckCloseFrameData(code, reason); {
	case err == ws.ErrProtocolInvalidUTF8:
		r.fail(ws.StatusInvalidFramePayloadData, "the reason of a close frame is not UTF-8")
	case err != nil || code >= 5000:
		r.fail(ws.StatusProtocolError, "a close frame has a code that is not for use")
	}
}
