//go:build linux

package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// transports are the ways to read, each by a small reader of its own that shares
// nothing with the others but what a message is. A visit lasts until the context
// or the connection ends, and returns how it ended.
var transports = []func(ctx context.Context, t *traveller, server string) error{readSSE, readPolls, readSocket}

// traveller is a client with one position, which it takes along to any server
// and any transport. Each of its channels must hold only the numbers from 1 on as
// payloads, each appended once.
type traveller struct {
	name     string
	channels []string
	extra    []string    // names and values for every query
	tls      *tls.Config // for servers at https; nil: none
	web      *http.Client

	mu     sync.Mutex        // guards the following
	places map[string]string // by channel, the id it goes on from
	last   map[string]int    // by channel, the newest number that came
	faults []string          // the first few
	pings  int               // of a WebSocket
	placed chan struct{}     // closed when each channel has a place
}

func newTraveller(name string, channels ...string) *traveller {
	return &traveller{name: name, channels: channels, web: streams, places: map[string]string{}, last: map[string]int{}, placed: make(chan struct{})}
}

// message is one as JSON, on each transport.
type message struct{ Channel, ID, Payload string }

// take judges a message: the next number of its channel, counted by its id.
func (t *traveller) take(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := strconv.Atoi(m.Payload)
	_, counter, _ := strings.Cut(m.ID, "-")
	if err != nil || n != t.last[m.Channel]+1 || counter != m.Payload {
		t.fault("%s: %q with the id %s came after %d", m.Channel, m.Payload, m.ID, t.last[m.Channel])
	}
	t.last[m.Channel] = n
	t.place(m.Channel, m.ID)
}

// told notes a fault if it is one; everything else beside messages is fine.
func (t *traveller) told(what, data string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch what {
	case "ping":
		t.pings++
	case "gap", "error", "expired", "end":
		t.fault("was told %s %s", what, data)
	}
}

// place notes where a channel goes on. The caller holds mu.
func (t *traveller) place(channel, id string) {
	if t.places[channel] = id; len(t.places) == len(t.channels) {
		select {
		case <-t.placed:
		default:
			close(t.placed)
		}
	}
}

// fault notes what must not be. The caller holds mu.
func (t *traveller) fault(format string, args ...any) {
	if len(t.faults) < 5 {
		t.faults = append(t.faults, t.name+": "+fmt.Sprintf(format, args...))
	}
}

// cursor is the position as one word, made as docs/protocol.md tells clients to.
func (t *traveller) cursor() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.channels) == 1 {
		return t.places[t.channels[0]]
	}
	var parts []string
	for channel, id := range t.places {
		ms, n, _ := strings.Cut(id, "-")
		parts = append(parts, fmt.Sprintf("%s.%s.%s", base36(channelHash(channel)), base36(number(ms)), base36(number(n))))
	}
	if parts == nil {
		return ""
	}
	slices.Sort(parts)
	return "1~" + strings.Join(parts, "~")
}

// goTo takes over a position that came as one word.
func (t *traveller) goTo(cursor string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.channels) == 1 {
		t.place(t.channels[0], cursor)
		return
	}
	text, ok := strings.CutPrefix(cursor, "1~")
	for _, part := range strings.Split(text, "~") {
		words := strings.Split(part, ".")
		i := slices.IndexFunc(t.channels, func(c string) bool { return base36(channelHash(c)) == words[0] })
		if !ok || len(words) != 3 || i < 0 {
			t.fault("was sent the cursor %q", cursor)
			return
		}
		ms, err1 := strconv.ParseUint(words[1], 36, 64)
		n, err2 := strconv.ParseUint(words[2], 36, 64)
		if err1 != nil || err2 != nil {
			t.fault("was sent the cursor %q", cursor)
			return
		}
		t.place(t.channels[i], fmt.Sprintf("%d-%d", ms, n))
	}
}

// has is whether each channel came up to its number.
func (t *traveller) has(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, channel := range t.channels {
		if t.last[channel] < n {
			return false
		}
	}
	return true
}

// address is a transport's address with the channels and whatever else.
func (t *traveller) address(server, path string, pairs ...string) string {
	query := url.Values{"channel": t.channels}
	pairs = append(pairs, t.extra...)
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return server + path + "?" + query.Encode()
}

func channelHash(channel string) uint64 {
	sum := sha256.Sum256([]byte(channel))
	return binary.BigEndian.Uint64(sum[:8]) >> 16
}

func base36(n uint64) string { return strconv.FormatUint(n, 36) }

func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64) // an id the server wrote; a bad one shows as a reset
	return n
}

// readSSE reads an event stream.
func readSSE(ctx context.Context, t *traveller, server string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.address(server, "/v1/sse", "format", "json"), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Last-Event-ID", t.cursor())
	res, err := t.web.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("/v1/sse: %s", res.Status)
	}
	for e := range events(res.Body) {
		if e.name == "message" {
			var m message
			if err := json.Unmarshal([]byte(e.data), &m); err != nil {
				return err
			}
			t.take(m)
		} else {
			t.told(strings.TrimPrefix(e.name, "rejoin."), e.data)
		}
		if e.id != "" {
			t.goTo(e.id)
		}
	}
	return nil
}

// readPolls polls again and again.
func readPolls(ctx context.Context, t *traveller, server string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.address(server, "/v1/poll", "lastEventId", t.cursor()), nil)
		if err != nil {
			return err
		}
		res, err := t.web.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("/v1/poll: %s", res.Status)
		}
		var answer struct {
			Messages    []message
			Gaps, Ended []json.RawMessage
			Cursor      string
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return err
		}
		if len(answer.Gaps)+len(answer.Ended) > 0 {
			t.told("gap", string(body))
		}
		for _, m := range answer.Messages {
			t.take(m)
		}
		t.goTo(answer.Cursor)
	}
}

// readSocket reads a WebSocket, RFC 6455, spelt out.
func readSocket(ctx context.Context, t *traveller, server string) error {
	address, err := url.Parse(t.address(server, "/v1/ws", "lastEventId", t.cursor()))
	if err != nil {
		return err
	}
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if t.tls != nil {
		dialer = &tls.Dialer{Config: t.tls}
	}
	conn, err := dialer.DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	key := make([]byte, 16)
	_, _ = rand.Read(key)
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n",
		address.RequestURI(), address.Host, base64.StdEncoding.EncodeToString(key)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("/v1/ws: %s", res.Status)
	}
	for {
		code, payload, err := readFrame(in)
		if err != nil {
			return err
		}
		switch code {
		case 1:
			if err := t.socketFrame(payload); err != nil {
				return err
			}
		case 8:
			return io.EOF
		case 9:
			t.told("ping", "")
			// A pong with the mask 0 0 0 0.
			if _, err := conn.Write(append([]byte{0x8a, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)); err != nil {
				return err
			}
		}
	}
}

// readFrame reads a frame that is not fragmented and not masked.
func readFrame(in *bufio.Reader) (code byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1])
	if more := map[uint64]int{126: 2, 127: 8}[size]; more > 0 {
		long := make([]byte, 8)
		if _, err := io.ReadFull(in, long[8-more:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(long)
	}
	if head[0]&0xf0 != 0x80 || head[1]&0x80 != 0 || size > 1<<20 {
		return 0, nil, fmt.Errorf("a frame begins with %x", head)
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(in, payload)
	return head[0] & 0x0f, payload, err
}

// socketFrame takes a frame that the server sent.
func (t *traveller) socketFrame(text []byte) error {
	var frame struct {
		Type     string
		Channels map[string]struct{ Cursor string }
		message
	}
	if err := json.Unmarshal(text, &frame); err != nil {
		return err
	}
	switch frame.Type {
	case "message":
		t.take(frame.message)
	case "ready":
		t.mu.Lock()
		for channel, at := range frame.Channels {
			t.place(channel, at.Cursor)
		}
		t.mu.Unlock()
	default:
		t.told(frame.Type, string(text))
	}
	return nil
}
