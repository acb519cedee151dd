package bench

import (
	"encoding/binary"
	"errors"
)

// frames reads WebSocket frames (RFC 6455, section 5.2) that come in pieces of
// any size. A server's frames are not masked; ours are whole messages, never
// compressed.
//
// Of a frame that comes in pieces only the first [maxKept] bytes are kept; its
// size is exact.
type frames struct {
	op   byte
	text []byte // the payload; good until the next call
	size int    // its whole length

	head [10]byte // of a frame whose header is not whole
	n    int      // bytes of it so far
	left int      // bytes of the payload to come
	kept []byte   // the payload so far
}

const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

var errFrame = errors.New("a WebSocket frame is not what the contract says")

func (f *frames) reset() { f.n, f.left, f.kept = 0, 0, f.kept[:0] }

// next reads on in p up to the end of the next frame: with ok it is in op, text
// and size and rest is what follows it; else p is used up.
func (f *frames) next(p []byte) (rest []byte, ok bool, err error) {
	if f.left == 0 {
		for {
			want := f.wanted()
			if f.n >= want {
				break
			}
			if len(p) == 0 {
				return nil, false, nil
			}
			n := copy(f.head[f.n:want], p)
			f.n += n
			p = p[n:]
		}
		if err := f.begin(); err != nil {
			return nil, false, err
		}
		if len(p) >= f.size { // the common case: nothing is copied
			f.text, f.n, f.left = p[:f.size], 0, 0
			return p[f.size:], true, nil
		}
	}
	n := min(len(p), f.left)
	f.kept = append(f.kept, p[:min(n, max(0, maxKept-len(f.kept)))]...)
	f.left -= n
	if f.left > 0 {
		return nil, false, nil
	}
	f.text, f.n, f.kept = f.kept, 0, f.kept[:0]
	return p[n:], true, nil
}

// wanted is the length of the header as far as it is known.
func (f *frames) wanted() int {
	if f.n < 2 {
		return 2
	}
	switch f.head[1] & 0x7f {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}

// begin takes the whole header.
func (f *frames) begin() error {
	f.op = f.head[0] & 0x0f
	size := uint64(f.head[1] & 0x7f)
	switch size {
	case 126:
		size = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		size = binary.BigEndian.Uint64(f.head[2:])
	}
	control := f.op >= opClose
	if f.head[0]&0xf0 != 0x80 || f.head[1]&0x80 != 0 || f.op != opText && !control || control && size > 125 || size > 1<<30 {
		return errFrame
	}
	f.size, f.left, f.kept = int(size), int(size), f.kept[:0]
	return nil
}

// appendMasked adds a client's frame of at most 125 bytes. The mask is zero: no
// cache stands between, which is what it is for.
func appendMasked(dst []byte, op byte, payload []byte) []byte {
	dst = append(dst, 0x80|op, 0x80|byte(len(payload)), 0, 0, 0, 0)
	return append(dst, payload...)
}
