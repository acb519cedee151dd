package sse

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"time"

	"rejoin/delivery"
)

// pumpable reports whether a request's connection can be taken from the HTTP
// server and written to by a pump: plain TCP under HTTP/1.1, on a system that
// has pumps. All others are served by their handler's goroutine; frames, resume
// and told things are the same code.
func (h *Handler) pumpable(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	_, tcp := addr.(*net.TCPAddr)
	return tcp && h.o.Broker.CanPump() && r.TLS == nil && r.ProtoMajor == 1 && r.ProtoMinor == 1
}

// pump answers the request and gives its connection to a pump.
func (h *Handler) pump(w http.ResponseWriter, heartbeat time.Duration, sub *delivery.Subscription, e *Encoder, start []byte) error {
	head := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nDate: ")
	head = time.Now().UTC().AppendFormat(head, http.TimeFormat)
	head = append(head, "\r\n"...)
	fields := bytes.NewBuffer(head)
	_ = w.Header().Write(fields) // into memory
	head = append(fields.Bytes(), "\r\n"...)

	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		sub.Close()
		return err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok || c.SetDeadline(time.Time{}) != nil {
		sub.Close()
		c.Close()
		return nil
	}
	_ = buffered // what a client sends behind its request means nothing here
	h.o.Broker.Attach(tcp, sub, delivery.OutletOptions{
		Framer:    framer{e},
		Head:      appendChunk(head, start),
		Heartbeat: heartbeat,
		Stuck:     h.o.Stuck,
	}, nil)
	return nil
}

// framer writes one connection's frames as chunks (RFC 9112, 7.1). There is
// never a last chunk: a clean end would tell some clients that the stream is
// complete.
type framer struct{ e *Encoder }

func (f framer) Frames(p *delivery.Pieces, items []delivery.Item) {
	for i := range items {
		it := &items[i]
		switch {
		case it.Kind != delivery.Message:
			p.Own(func(b []byte) []byte {
				return chunked(b, func(b []byte) []byte { return f.e.Append(b, it) })
			})
		case f.e.many == nil:
			p.Shared(it.Record.Frame(f.e.chunkForm, f.e.encodeChunk))
		default:
			f.several(p, it)
		}
	}
}

// several writes a message of a connection with several channels: the data is
// shared, the id line is the connection's own.
func (f framer) several(p *delivery.Pieces, it *delivery.Item) {
	frame := it.Record.Frame(f.e.form, f.e.encode)
	data := frame[bytes.IndexByte(frame, '\n')+1:]
	p.Own(func(b []byte) []byte {
		from := len(b)
		b = f.e.appendID(b, it.Channel, it.Pos)
		size := len(b) - from + len(data)
		var line [20]byte
		return insert(b, from, append(strconv.AppendInt(line[:0], int64(size), 16), "\r\n"...))
	})
	p.Shared(data)
	p.Shared(crlf)
}

var (
	crlf = []byte("\r\n")
	beat = appendChunk(nil, []byte(Heartbeat))
)

func (framer) Beat(p *delivery.Pieces) { p.Shared(beat) }

func (framer) Mail(*delivery.Pieces) delivery.Parting { return delivery.GoOn }

func (framer) Farewell(*delivery.Pieces, []delivery.Item) delivery.Parting { return delivery.CloseNow }

// encodeRawChunk is the frame of [delivery.FormSSEChunk].
func encodeRawChunk(r *delivery.Record) []byte { return appendChunk(nil, encodeRaw(r)) }

// encodeJSONChunk is the frame of [delivery.FormSSEJSONChunk].
func encodeJSONChunk(r *delivery.Record) []byte { return appendChunk(nil, encodeJSON(r)) }

// appendChunk adds data as a chunk.
func appendChunk(dst, data []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// chunked adds what add appends as a chunk.
func chunked(dst []byte, add func([]byte) []byte) []byte {
	from := len(dst)
	dst = add(dst)
	var line [20]byte
	head := append(strconv.AppendInt(line[:0], int64(len(dst)-from), 16), "\r\n"...)
	return append(insert(dst, from, head), "\r\n"...)
}

// insert puts what stands before b[at:].
func insert(b []byte, at int, what []byte) []byte {
	n := len(b)
	b = append(b, what...)
	copy(b[at+len(what):], b[at:n])
	copy(b[at:], what)
	return b
}
