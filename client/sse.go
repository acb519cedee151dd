package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"rejoin/stream"
)

// sse is one connection of Server-Sent Events; it returns why it ended.
func (s *subscription) sse(ctx context.Context, server *url.URL) error {
	l := open(ctx, s.c.o.Timeout)
	defer l.close()
	query := s.query()
	query.Set("format", "json")
	query.Set("heartbeat", s.hold.String())
	r, err := s.c.newRequest(l.ctx, http.MethodGet, server, "/v1/sse", query, nil)
	if err != nil {
		return l.why(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Cache-Control", "no-cache")
	resp, err := s.c.do(server, r)
	if err != nil {
		return l.why(err)
	}
	defer resp.Body.Close()
	l.heard()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent:
		return s.allEnded()
	default:
		return errorOf(resp)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return fmt.Errorf("%w: asked for an event stream, got %q", ErrProtocol, resp.Header.Get("Content-Type"))
	}
	s.c.answered(server)
	events := newEventReader(&awaited{resp.Body, l, s}, s.c.o.MaxMessageBytes)
	for {
		e, err := events.next()
		if events.retry > 0 {
			s.retry = milliseconds(events.retry)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errCut
			}
			return l.why(err)
		}
		name, isTold := strings.CutPrefix(e.name, "rejoin.")
		if !isTold {
			name = "message"
		}
		if err := s.frame(l, name, e.data, e.id); err != nil {
			return err
		}
	}
}

// allEnded is for the answer to a cursor that is the end of all channels.
func (s *subscription) allEnded() error {
	for _, name := range s.channels {
		id, _ := position(s.cursor, name)
		if err := s.end(name, id); err != nil {
			return err
		}
	}
	return errCut // does not happen: each of them has ended
}

// awaited is a body that is given up when nothing comes for twice the heartbeat.
// The time in which nobody reads does not count.
type awaited struct {
	body io.Reader
	l    *line
	s    *subscription
}

func (a *awaited) Read(p []byte) (int, error) {
	a.l.await(2 * a.s.hold)
	n, err := a.body.Read(p)
	a.l.heard()
	return n, err
}

// sseEvent is one event of a stream. Its data is good until the next.
type sseEvent struct {
	name string
	id   string // the last event id, once this event is dispatched
	data []byte
}

// eventReader reads an event stream (WHATWG HTML, section 9.2.6). Lines end in
// LF or CR LF, as all servers of the contract and what stands before them write.
type eventReader struct {
	in    *bufio.Reader
	most  int   // bytes of one event
	retry int64 // ms, the newest retry field; 0: none yet
	id    string
	data  []byte
	line  []byte // one that did not fit into in's buffer
}

func newEventReader(r io.Reader, most int) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, 16<<10), most: most}
}

// next reads the next event that has data. What a stream breaks off with is no
// event.
func (r *eventReader) next() (sseEvent, error) {
	e := sseEvent{}
	id := r.id
	r.data = r.data[:0]
	hasData := false
	for {
		line, err := r.readLine()
		if err != nil {
			return sseEvent{}, err
		}
		if len(line) == 0 {
			r.id = id
			if hasData {
				e.id, e.data = id, r.data
				return e, nil
			}
			e.name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if hasData {
				r.data = append(r.data, '\n')
			}
			hasData = true
			if len(r.data)+len(value) > r.most {
				return sseEvent{}, tooLarge(r.most)
			}
			r.data = append(r.data, value...)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		case "event":
			e.name = string(value)
		case "retry":
			if n, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = int64(n)
			}
		}
	}
}

// readLine is the next line without its end, good until the next call.
func (r *eventReader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		switch {
		case err == nil && len(r.line) == 0:
			return trimEnd(part), nil
		case err == nil:
			return trimEnd(append(r.line, part...)), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		if len(r.line)+len(part) > r.most+len("data: ") {
			return nil, tooLarge(r.most)
		}
		r.line = append(r.line, part...)
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
}

func tooLarge(most int) error {
	return fmt.Errorf("%w: a message larger than MaxMessageBytes, %d", ErrProtocol, most)
}

// position is a channel's place in a cursor's text.
func position(cursor, channel string) (stream.ID, bool) {
	c, err := stream.ParseCursor(cursor)
	if err != nil {
		return stream.ID{}, false
	}
	return c.Position(channel)
}
