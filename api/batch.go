package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"rejoin/stream"
)

const (
	// maxBatch is the most messages of one call.
	maxBatch = 1000
	// DefaultBatchBytes is the default of Options.BatchBytes.
	DefaultBatchBytes = 8 << 20
)

// publishMany appends many messages, or one on many channels, and answers what
// became of each. It is refused as a whole only if it cannot be read.
func (a *API) publishMany(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Idempotency-Key") != "" {
		return badRequest("Idempotency-Key: here each message has its own, idempotency_key in the body")
	}
	body, err := a.readBody(w, r, a.o.BatchBytes, "the body of such a call")
	if err != nil {
		return err
	}
	list, err := readBatch([]byte(body), a.o.BatchBytes)
	if err != nil {
		return err
	}
	results := make([]manyResult, len(list))
	var ms []stream.Message
	var place []int // of a message in results
	for i := range list {
		m, err := a.batchMessage(r, &list[i])
		results[i].Channel = m.Channel
		if err != nil {
			results[i].fail(a, err)
			continue
		}
		ms, place = append(ms, m), append(place, i)
	}
	// A client that leaves now does not make an outcome unknown.
	for k, done := range a.o.Log.AppendAll(context.WithoutCancel(r.Context()), ms) {
		res := &results[place[k]]
		if done.Err != nil {
			res.fail(a, during(toAppend, done.Err))
			continue
		}
		res.ID, res.Replayed = &done.ID, done.Replayed
		if !done.Replayed {
			a.metrics.appended.Inc()
		}
	}
	for i := range results {
		if p := results[i].problem; p != nil && p.retryAfter > 0 {
			p.setRetryAfter(w.Header())
		}
	}
	return writeJSON(w, http.StatusOK, struct {
		Results []manyResult `json:"results"`
	}{results})
}

// manyResult is what became of one message.
type manyResult struct {
	ID       *stream.ID      `json:"id,omitempty"`
	Channel  string          `json:"channel"`
	Replayed bool            `json:"replayed,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"`

	problem *problem
}

func (m *manyResult) fail(a *API, err error) {
	m.problem = a.note(err)
	m.Error = m.problem.body()
}

// batchEntry is one message of a batch as it came. err is why it could not even
// be read.
type batchEntry struct {
	Channel        string
	Payload        json.RawMessage
	Event          string
	Key            string
	IdempotencyKey *string

	err error
}

// fields are the names of a message's parts in the body.
func (e *batchEntry) fields() map[string]any {
	return map[string]any{
		"channel": &e.Channel, "payload": &e.Payload, "event": &e.Event, "key": &e.Key, "idempotency_key": &e.IdempotencyKey,
	}
}

const wantBatch = `want either "messages", a list, or "channels", a list, and "payload"`

// readBatch reads the body of a batch: {"messages":[…]}, or one payload on many
// channels, {"channels":[…],"payload":…}. Its error is a [*problem].
func readBatch(body []byte, limit int) ([]batchEntry, error) {
	if len(body) == 0 {
		return nil, badRequest("the body: it is empty; " + wantBatch)
	}
	var messages []json.RawMessage
	var channels []string
	var one batchEntry
	fields := one.fields()
	fields["messages"], fields["channels"] = &messages, &channels
	if err := readObject(body, fields); err != nil {
		return nil, badRequest("the body: %v", err)
	}
	switch {
	case (messages == nil) == (channels == nil):
		return nil, badRequest("the body: " + wantBatch)
	case one.Channel != "" || messages != nil && (one.Payload != nil || one.Event != "" || one.Key != "" || one.IdempotencyKey != nil):
		return nil, badRequest(`the body: beside "messages" stands nothing; beside "channels" the payload, event, key and idempotency_key of all`)
	case len(messages)+len(channels) == 0 || len(messages)+len(channels) > maxBatch:
		return nil, badRequest("the body: want 1 to %d messages", maxBatch)
	case len(channels)*len(one.Payload) > limit:
		return nil, &problem{
			Status: http.StatusRequestEntityTooLarge, Code: codeTooLarge,
			Detail: fmt.Sprintf("all payloads of a call together have at most %d bytes; nothing was appended", limit),
		}
	}
	var list []batchEntry
	for _, text := range messages {
		var e batchEntry
		if err := readObject(text, e.fields()); err != nil {
			e.err = badRequest("%v", err)
		}
		list = append(list, e)
	}
	for _, channel := range channels {
		one.Channel = channel
		list = append(list, one)
	}
	return list, nil
}

// readObject reads a JSON object (RFC 8259) whose members are among the fields,
// each a pointer to what it is. A name that is not exactly one of them, or comes
// twice, is refused: what is misspelt must not be passed over.
func readObject(text []byte, fields map[string]any) error {
	in := json.NewDecoder(bytes.NewReader(text))
	if t, err := in.Token(); err != nil {
		return jsonError(err)
	} else if t != json.Delim('{') {
		return errors.New("want a JSON object")
	}
	seen := map[string]bool{}
	for in.More() {
		t, err := in.Token()
		if err != nil {
			return jsonError(err)
		}
		name, _ := t.(string) // the decoder takes no other name
		into, known := fields[name]
		switch {
		case !known:
			return fmt.Errorf("unknown field %q; want one of %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case seen[name]:
			return fmt.Errorf("%q stands there twice", name)
		}
		seen[name] = true
		if err := in.Decode(into); err != nil {
			if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				return fmt.Errorf("%q: a JSON %s will not do", name, bad.Value)
			}
			return jsonError(err)
		}
	}
	if _, err := in.Token(); err != nil { // the }
		return jsonError(err)
	}
	if _, err := in.Token(); err != io.EOF {
		return errors.New("something stands behind the JSON object")
	}
	return nil
}

// jsonError says what is wrong with a text that is no JSON.
func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON breaks off")
	}
	return err
}

// batchMessage is the message to append, if its sender may. The channel is
// given also with an error.
func (a *API) batchMessage(r *http.Request, e *batchEntry) (stream.Message, error) {
	m := stream.Message{Channel: e.Channel, Event: e.Event, Key: e.Key}
	if e.err != nil {
		return m, e.err
	}
	if err := stream.CheckChannel(m.Channel); err != nil {
		return m, badRequest("channel: %v", err)
	}
	if err := mayPublish(r, m.Channel); err != nil {
		return m, err
	}
	if err := checkEvent(m.Event); err != nil {
		return m, badRequest("event: %v", err)
	}
	if e.IdempotencyKey != nil {
		if m.IdempotencyKey = *e.IdempotencyKey; !idempotencyKey(m.IdempotencyKey) {
			return m, badRequest("idempotency_key: want 1 to %d bytes", maxIdempotencyKey)
		}
	}
	var err error
	if m.Payload, err = payloadOf(e.Payload); err != nil {
		return m, badRequest("payload: %v", err)
	}
	if limit := a.payloadLimit(m.Channel); len(m.Payload) > limit {
		return m, tooLarge("a payload on this channel", limit)
	}
	return m, nil
}

// payloadOf is the payload that a JSON value stands for: a string is itself,
// anything else its compact text.
func payloadOf(value json.RawMessage) (string, error) {
	switch {
	case len(value) == 0:
		return "", errors.New(`it is missing; an empty one is ""`)
	case value[0] != '"':
		var b bytes.Buffer
		if err := json.Compact(&b, value); err != nil {
			return "", err
		}
		return b.String(), nil
	case loneSurrogate(value):
		return "", errors.New(`half a character, such as \ud83d alone, is not valid UTF-8`)
	}
	var s string
	err := json.Unmarshal(value, &s)
	return s, err
}

// loneSurrogate reports whether a JSON string has an escape that is one half of a
// surrogate pair (RFC 8259, section 8.2). Decoding would put U+FFFD in its place,
// and a payload must come out as it went in.
func loneSurrogate(text []byte) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		high := escaped(text[i+1:])
		switch {
		case high < 0xD800 || high > 0xDFFF:
			continue
		case high > 0xDBFF || !bytes.HasPrefix(text[i+5:], []byte(`\u`)):
			return true
		}
		if low := escaped(text[i+7:]); low < 0xDC00 || low > 0xDFFF {
			return true
		}
		i += 10
	}
	return false
}

// escaped reads the four hex digits of an escape; the decoder has seen that they
// are there.
func escaped(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits[:min(4, len(digits))]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
