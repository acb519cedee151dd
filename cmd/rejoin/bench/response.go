package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// response reads one HTTP/1.1 response (RFC 9112) that comes in pieces of any
// size. It keeps nothing of the body, and of head lines only the unfinished one.
type response struct {
	state   responseState
	status  int
	stream  bool   // Content-Type is text/event-stream, bare
	close   bool   // Connection: close
	accept  []byte // Sec-WebSocket-Accept
	chunked bool
	left    int64 // bytes left of the chunk, or of the body; -1: until the connection ends
	head    int   // bytes of head so far
	line    []byte
}

type responseState uint8

const (
	inStatus responseState = iota
	inHeaders
	inBody
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
	ended
)

// maxHead bounds the head of a response and each line between chunks.
const maxHead = 32 << 10

var errHead = errors.New("not an HTTP/1.1 response")

// reset makes it ready for the next response.
func (r *response) reset() { *r = response{line: r.line[:0], accept: r.accept[:0]} }

// headDone reports whether status and headers are known.
func (r *response) headDone() bool { return r.state > inHeaders }

// done reports whether the body has ended.
func (r *response) done() bool { return r.state == ended }

// next reads on in p and returns the next piece of the body and what is left of
// p. Without a piece either p is used up or the response is done.
func (r *response) next(p []byte) (body, rest []byte, err error) {
	for len(p) > 0 {
		switch r.state {
		case ended:
			return nil, p, nil
		case inBody, inChunk:
			n := int64(len(p))
			if r.left >= 0 {
				n = min(n, r.left)
				r.left -= n
			}
			body, p = p[:n], p[n:]
			if r.left == 0 {
				r.state = ended
				if r.chunked {
					r.state = inChunkEnd
				}
			}
			return body, p, nil
		}
		var line []byte
		var ok bool
		if line, p, ok = r.cut(p); !ok {
			if len(r.line)+r.head > maxHead {
				return nil, p, fmt.Errorf("%w: head or chunk line over %d bytes", errHead, maxHead)
			}
			return nil, p, nil
		}
		err = r.take(line)
		r.line = r.line[:0]
		if err != nil {
			return nil, p, err
		}
	}
	return nil, p, nil
}

// cut returns the next line without its end, once it is whole.
func (r *response) cut(p []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		r.line = append(r.line, p...)
		return nil, nil, false
	}
	line, rest = p[:i], p[i+1:]
	if len(r.line) > 0 {
		r.line = append(r.line, line...)
		line = r.line
	}
	return bytes.TrimSuffix(line, []byte("\r")), rest, true
}

// take reads a whole line of head or framing.
func (r *response) take(line []byte) error {
	switch r.state {
	case inStatus:
		version, status, ok := bytes.Cut(line, []byte(" "))
		if !ok || !bytes.HasPrefix(version, []byte("HTTP/1.")) || len(status) < 3 {
			return fmt.Errorf("%w: it begins %q", errHead, clip(line))
		}
		code, err := strconv.Atoi(string(status[:3]))
		if err != nil {
			return fmt.Errorf("%w: it begins %q", errHead, clip(line))
		}
		r.status, r.state, r.left = code, inHeaders, -1
	case inHeaders:
		if r.head += len(line) + 2; r.head > maxHead {
			return fmt.Errorf("%w: head over %d bytes", errHead, maxHead)
		}
		if len(line) > 0 {
			return r.header(line)
		}
		r.head = 0
		switch {
		case r.status/100 == 1 || r.status == 204 || r.status == 304:
			r.state = ended
		case r.chunked:
			r.state, r.left = inChunkSize, 0
		case r.left == 0:
			r.state = ended
		default:
			r.state = inBody
		}
	case inChunkSize:
		digits, _, _ := bytes.Cut(line, []byte(";"))
		n, ok := parseHex(bytes.TrimSpace(digits))
		if !ok {
			return fmt.Errorf("bad chunk size %q", clip(line))
		}
		r.left, r.state = n, inChunk
		if n == 0 {
			r.state = inTrailer
		}
	case inChunkEnd:
		if len(line) != 0 {
			return fmt.Errorf("a chunk of the body is longer than its size said")
		}
		r.state = inChunkSize
	case inTrailer:
		if len(line) == 0 {
			r.state = ended
		}
	}
	return nil
}

func (r *response) header(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return fmt.Errorf("%w: header line %q", errHead, clip(line))
	}
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("Content-Type")):
		r.stream = string(value) == "text/event-stream"
	case bytes.EqualFold(name, []byte("Sec-WebSocket-Accept")):
		r.accept = append(r.accept[:0], value...)
	case bytes.EqualFold(name, []byte("Connection")):
		r.close = bytes.EqualFold(value, []byte("close"))
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		r.chunked = bytes.EqualFold(value, []byte("chunked"))
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: Content-Length %q", errHead, clip(value))
		}
		r.left = n
	}
	return nil
}

// parseHex reads a chunk size of at most 1 TiB.
func parseHex(p []byte) (n int64, ok bool) {
	if len(p) == 0 || len(p) > 10 {
		return 0, false
	}
	for _, c := range p {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		n = n<<4 | int64(c)
	}
	return n, true
}

// clip keeps an error short.
func clip(p []byte) []byte { return p[:min(len(p), 80)] }
