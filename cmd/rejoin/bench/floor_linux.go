package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
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
	readers []floorReader
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
		if channel, ok := strings.CutPrefix(target, "GET /v1/sse?channel="); ok {
			if f.subscribe(conn, channel) != nil {
				_ = conn.Close() // as above
			}
			return
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

func (f *floor) subscribe(conn net.Conn, channel string) error {
	tcp := conn.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.channel(channel)
	ready := fmt.Sprintf("retry: 1000\n\nid: %s\nevent: rejoin.ready\ndata: {}\n\n", floorID(ch.last))
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store, no-transform\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := fmt.Fprintf(conn, "%s%x\r\n%s\r\n", head, len(ready), ready); err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		ch.readers = append(ch.readers, floorReader{int(fd), tcp})
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
	event := "id: " + id + "\ndata: "
	b := append(f.frame[:0], strconv.FormatInt(int64(len(event)+len(payload)+2), 16)...)
	b = append(b, "\r\n"...)
	b = append(b, event...)
	b = append(b, payload...) // one line, as every payload of a run
	b = append(b, "\n\n\r\n"...)
	f.frame = b

	kept := ch.readers[:0]
	for _, r := range ch.readers {
		if writeWhole(r.fd, b) {
			kept = append(kept, r)
		} else {
			// It has left, or takes nothing: then an ordinary end would wait
			// behind what it does not take.
			_ = r.conn.SetLinger(0)
			_ = r.conn.Close()
		}
	}
	clear(ch.readers[len(kept):])
	ch.readers = kept
	return id
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
