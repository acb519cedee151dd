package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// floor holds the subscribers of the bare write loop.
type floor struct {
	mu       sync.Mutex // guards the following fields and all writes to subscribers
	channels map[string]*floorChannel
	frame    []byte
}

type floorChannel struct {
	last    int64
	readers [2][]floorReader // of SSE, of WebSocket
}

// floorReader is one socket. conn is kept only so that it is not collected,
// which would close the descriptor.
type floorReader struct {
	fd   int
	conn *net.TCPConn
}

func serveFloor(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // an end or an error: both mean that the parent is gone
		_ = l.Close()
	}()
	f := &floor{channels: map[string]*floorChannel{}}
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go f.serve(conn)
	}
}

// floorForms are how subscribers ask; their numbers are those of
// floorChannel.readers.
var floorForms = [2]string{"GET /v1/sse?channel=", "GET /v1/ws?channel="}

// floorBuffers are request buffers: a subscriber gives its own back once it is
// subscribed, and costs no more than its socket.
var floorBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// serve answers requests on one connection until it has become a subscriber.
func (f *floor) serve(conn net.Conn) {
	r := floorBuffers.Get().(*bufio.Reader)
	r.Reset(conn)
	defer func() {
		r.Reset(nil)
		floorBuffers.Put(r)
	}()
	for {
		target, length, err := readFloorHead(r)
		if err != nil {
			_ = conn.Close() // the client has left
			return
		}
		for form, prefix := range floorForms {
			if channel, ok := strings.CutPrefix(target, prefix); ok {
				if f.subscribe(conn, form, channel) != nil {
					_ = conn.Close() // as above
				}
				return
			}
		}
		payload := make([]byte, min(length, MaxSize))
		if _, err := io.ReadFull(r, payload); err != nil {
			_ = conn.Close() // as above
			return
		}
		channel, ok := strings.CutPrefix(target, "POST /v1/channels/")
		if !ok {
			fmt.Fprint(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		channel = strings.TrimSuffix(channel, "/messages")
		id := f.publish(channel, payload)
		body := fmt.Sprintf("{\"id\":%q,\"channel\":%q}", id, channel)
		fmt.Fprintf(conn, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
}

// readFloorHead reads the head of a request as this package writes it: method
// and target, and the body's length. It leaves next to nothing to collect:
// memory is one of the things the floor is measured for.
func readFloorHead(r *bufio.Reader) (target string, length int, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 && target != "" {
			return target, length, nil
		}
		if target == "" {
			target = string(bytes.TrimSuffix(line, []byte(" HTTP/1.1")))
		} else if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return "", 0, fmt.Errorf("%w: Content-Length", errHead)
			}
		}
	}
}

func (f *floor) subscribe(conn net.Conn, form int, channel string) error {
	tcp := conn.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.channel(channel)
	var first []byte
	if form == 0 {
		ready := fmt.Sprintf("retry: 1000\n\nid: %s\nevent: rejoin.ready\ndata: {}\n\n", floorID(ch.last))
		first = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store, no-transform\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(ready), ready)
	} else {
		ready := fmt.Sprintf(`{"type":"ready","channels":{},"cursor":%q,"retry":1000}`, floorID(ch.last))
		first = fmt.Appendf(nil, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", wsAccept)
		first = append(appendTextHeader(first, len(ready)), ready...)
	}
	if _, err := conn.Write(first); err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		ch.readers[form] = append(ch.readers[form], floorReader{int(fd), tcp})
	})
}

func (f *floor) channel(name string) *floorChannel {
	ch := f.channels[name]
	if ch == nil {
		ch = &floorChannel{}
		f.channels[name] = ch
	}
	return ch
}

// floorID is an id of the right shape and length.
func floorID(n int64) string { return "1764530000000-" + strconv.FormatInt(n, 10) }

// publish encodes the frame once and writes it to every reader of the channel.
func (f *floor) publish(channel string, payload []byte) (id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.channel(channel)
	ch.last++
	id = floorID(ch.last)
	for form := range ch.readers {
		if len(ch.readers[form]) == 0 {
			continue
		}
		if form == 0 {
			f.frame = appendFloorEvent(f.frame[:0], id, payload)
		} else {
			f.frame = appendFloorText(f.frame[:0], channel, id, payload)
		}
		ch.readers[form] = writeAll(ch.readers[form], f.frame)
	}
	return id
}

// appendFloorEvent adds a message as an event in a chunk of HTTP/1.1.
func appendFloorEvent(b []byte, id string, payload []byte) []byte {
	event := "id: " + id + "\ndata: "
	b = strconv.AppendInt(b, int64(len(event)+len(payload)+2), 16)
	b = append(b, "\r\n"...)
	b = append(b, event...)
	b = append(b, payload...) // one line, as every payload of a run
	return append(b, "\n\n\r\n"...)
}

// appendFloorText adds a message as a text frame.
func appendFloorText(b []byte, channel, id string, payload []byte) []byte {
	head := `{"type":"message","channel":"` + channel + `","id":"` + id + `","time":"2025-11-30T16:00:00.000Z","payload":"`
	b = appendTextHeader(b, len(head)+len(payload)+2)
	b = append(b, head...)
	b = append(b, payload...) // without anything to escape, as every payload of a run
	return append(b, `"}`...)
}

// appendTextHeader adds the header of an unmasked text frame of n bytes.
func appendTextHeader(b []byte, n int) []byte {
	switch {
	case n <= 125:
		return append(b, 0x81, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0x81, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0x81, 127), uint64(n))
}

// writeAll writes the frame to every reader and returns those that took it.
func writeAll(readers []floorReader, frame []byte) []floorReader {
	kept := readers[:0]
	for _, r := range readers {
		if writeWhole(r.fd, frame) {
			kept = append(kept, r)
		} else {
			// It has left, or takes nothing: then an ordinary end would wait
			// behind what it does not take.
			_ = r.conn.SetLinger(0)
			_ = r.conn.Close()
		}
	}
	clear(readers[len(kept):])
	return kept
}

// writeWhole writes p, waiting for room up to a second.
func writeWhole(fd int, p []byte) bool {
	for {
		n, err := unix.Write(fd, p)
		if n == len(p) {
			return true
		}
		if n > 0 {
			p = p[n:]
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return false
		}
		room := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(room, int(time.Second/time.Millisecond)); n == 0 && err == nil {
			return false
		}
	}
}
