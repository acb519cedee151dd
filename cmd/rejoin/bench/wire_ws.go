package bench

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wsWire is GET /v1/ws with JSON text frames.
type wsWire struct {
	response response
	frames   frames
	detail   []byte
}

// wsKey is the same for all: no cache stands between, which is what it is for.
const wsKey = "cmVqb2luIGJlbmNoIHJ1bg=="

// wsAccept is the answer to it.
var wsAccept = acceptOf(wsKey)

// acceptOf is Sec-WebSocket-Accept (RFC 6455, section 4.2.2).
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (w *wsWire) reset() {
	w.response.reset()
	w.frames.reset()
	w.detail = w.detail[:0]
}

func (w *wsWire) request(k *client, b []byte) []byte {
	b = k.appendGet(b, "/v1/ws")
	if k.joined {
		b = append(b, "&lastEventId="...)
		b = append(b, k.builtCursor()...)
	}
	b = k.appendHost(b)
	return append(b, "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: rejoin.v1\r\nSec-WebSocket-Key: "+wsKey+"\r\n\r\n"...)
}

func (w *wsWire) take(k *client, p []byte, now int64) error {
	if w.response.status != 101 || !w.response.done() {
		body, rest, err := w.response.next(p)
		if err != nil {
			k.counts.violations++
			return err
		}
		if !w.response.headDone() {
			return nil
		}
		k.onHead()
		if w.response.status != 101 {
			w.detail = appendDetail(w.detail, body)
			if w.response.done() || w.response.left < 0 {
				return refusal(w.response.status, w.detail)
			}
			return nil
		}
		if string(w.response.accept) != wsAccept {
			k.violation(fmt.Sprintf("Sec-WebSocket-Accept is %q", clip(w.response.accept)))
		}
		p = rest
	}
	for {
		rest, ok, err := w.frames.next(p)
		if err != nil {
			k.counts.violations++
			return err
		}
		if !ok {
			return nil
		}
		if err := w.onFrame(k, &w.frames, now); err != nil {
			return err
		}
		p = rest
	}
}

var messageType = []byte(`{"type":"message",`)

func (w *wsWire) onFrame(k *client, f *frames, now int64) error {
	switch f.op {
	case opText:
		if bytes.HasPrefix(f.text, messageType) {
			id, payload, length := jsonMessage(f.text, f.size)
			i := k.onMessage(payload, length, len(id) > 0, now)
			if i < 0 {
				i = k.named(channelOf(f.text))
			}
			if i >= 0 {
				k.positions[i] = append(k.positions[i][:0], id...)
			}
			return nil
		}
		return w.onTold(k, f.text, now)
	case opPing:
		k.out = appendMasked(k.out, opPong, f.text)
	case opClose:
		if len(f.text) < 2 {
			return errEnded
		}
		return fmt.Errorf("the server closed: %d %s", binary.BigEndian.Uint16(f.text), f.text[2:])
	}
	return nil
}

// channelOf is the channel of a message in JSON.
func channelOf(text []byte) string {
	_, rest, _ := bytes.Cut(text, []byte(`"channel":"`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name)
}

func (w *wsWire) onTold(k *client, text []byte, now int64) error {
	var told struct {
		Type     string
		Channels map[string]struct{ Cursor string }
		Channel  string
		Cursor   string
		Retry    int64
	}
	// state and others have channels of another shape: of them only the type counts.
	err := json.Unmarshal(text, &told)
	switch told.Type {
	case "ready":
		if err != nil {
			k.violation("a ready frame is not what the contract says")
		}
		for i := range k.positions {
			at := told.Cursor
			if c, ok := told.Channels[k.opts.channelName(k.channel(i))]; ok {
				at = c.Cursor
			}
			k.positions[i] = append(k.positions[i][:0], at...)
		}
		k.retry = time.Duration(told.Retry) * time.Millisecond
		k.onReady(told.Cursor != "", now)
	case "gap":
		if i := k.named(told.Channel); i >= 0 && told.Cursor != "" {
			k.positions[i] = append(k.positions[i][:0], told.Cursor...)
		}
		k.onGap(text)
	case "move":
		k.onMove(text, now)
	case "error", "expired":
		return fmt.Errorf("the server sent %s", clip(text))
	case "":
		k.violation("a text frame has no type")
	}
	return nil // types not known are to be ignored
}

// builtCursor is the cursor of the client's positions: frames of a connection
// with several channels carry each its own id, and a client builds the whole.
func (k *client) builtCursor() string {
	if len(k.positions) == 1 {
		return string(k.positions[0])
	}
	parts := make([]string, len(k.positions))
	for i, id := range k.positions {
		ms, n, _ := strings.Cut(string(id), "-")
		parts[i] = channelHash(k.opts.channelName(k.channel(i))) + "." + base36(ms) + "." + base36(n)
	}
	slices.Sort(parts)
	return "1~" + strings.Join(parts, "~")
}

// channelHash is the first 48 bits of the name's SHA-256 in base36.
func channelHash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>16, 36)
}

// base36 writes a decimal number in base36.
func base36(decimal string) string {
	n, _ := strconv.ParseUint(decimal, 10, 64) // of an id; what is none is refused by the server as a cursor
	return strconv.FormatUint(n, 36)
}
