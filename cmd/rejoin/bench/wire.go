package bench

import (
	"bytes"
	"errors"
	"fmt"
)

// wire is one transport as a client speaks it. Its methods are called with the
// client's meter locked, but request.
type wire interface {
	// reset begins a new connection.
	reset()
	// request adds what is sent first on a connection.
	request(k *client, dst []byte) []byte
	// take reads a piece of what the server sent. With an error the connection is
	// to be closed.
	take(k *client, p []byte, now int64) error
}

func newWire(transport string) wire {
	switch transport {
	case "ws":
		return &wsWire{}
	case "longpoll":
		return &pollWire{}
	}
	return &sseWire{}
}

// Why a connection is closed by what came.
var (
	errEnded  = errors.New("the server ended the response")
	errRefuse = errors.New("the server did not answer as its transport does")
)

// refusal is an answer that is not the one of the transport: its status and the
// beginning of its body.
func refusal(status int, body []byte) error {
	return fmt.Errorf("%w: %d %s", errRefuse, status, body)
}

// appendDetail keeps the beginning of a refusal's body.
func appendDetail(dst, body []byte) []byte {
	return append(dst, body[:min(len(body), 200-len(dst))]...)
}

// appendChannels adds the query that names the client's channels.
func (k *client) appendChannels(dst []byte) []byte {
	for i := range k.accounts {
		dst = append(dst, "?&"[min(i, 1)])
		dst = append(dst, "channel="...)
		dst = append(dst, k.opts.channelName(k.channel(i))...)
	}
	return dst
}

// appendGet adds a request line up to the query, and appendHost ends the line.
func (k *client) appendGet(dst []byte, path string) []byte {
	dst = append(dst, "GET "...)
	dst = append(dst, k.server().path...)
	dst = append(dst, path...)
	return k.appendChannels(dst)
}

func (k *client) appendHost(dst []byte) []byte {
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, k.server().host...)
	return append(dst, "\r\n"...)
}

// jsonMessage finds the id and the payload in the JSON of a message, size bytes
// of which text is the beginning. It reads no more than it must: the load is
// heavy, and the payloads of a run need no escapes. length is the payload's
// whole length.
func jsonMessage(text []byte, size int) (id, payload []byte, length int) {
	if i := bytes.Index(text, idField); i >= 0 {
		id = text[i+len(idField):]
		id = id[:max(0, bytes.IndexByte(id, '"'))]
	}
	i := bytes.Index(text, payloadField)
	if i < 0 {
		return id, nil, 0
	}
	payload = text[i+len(payloadField):]
	if end := bytes.IndexByte(payload, '"'); end >= 0 {
		return id, payload[:end], end
	}
	return id, payload, size - (len(text) - len(payload)) - len(`"}`)
}

var idField, payloadField = []byte(`"id":"`), []byte(`"payload":"`)
