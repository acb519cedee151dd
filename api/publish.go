package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"rejoin/delivery"
	"rejoin/stream"
)

// published is the answer to a publish.
type published struct {
	ID      stream.ID `json:"id"`
	Channel string    `json:"channel"`
}

// publish appends one message and answers when the log has it.
func (a *API) publish(w http.ResponseWriter, r *http.Request) error {
	m, err := publishParams(r)
	if err != nil {
		return err
	}
	if m.Payload, err = a.readBody(w, r, a.payloadLimit(m.Channel), "a payload on this channel"); err != nil {
		return err
	}
	// A client that leaves now does not make the outcome unknown: the log's own
	// timeout bounds the call.
	done, err := a.o.Log.Append(context.WithoutCancel(r.Context()), m)
	if err != nil {
		return during(toAppend, err)
	}
	head := w.Header()
	if done.Replayed {
		head.Set("Idempotent-Replayed", "true")
	} else {
		a.metrics.appended.Inc()
	}
	head.Set("Location", "/v1/channels/"+url.PathEscape(m.Channel)+"/messages/"+done.ID.String())
	return writeJSON(w, http.StatusCreated, published{done.ID, m.Channel})
}

// publishParams reads all of a publish but its payload.
func publishParams(r *http.Request) (stream.Message, error) {
	channel, err := channelOf(r)
	if err != nil {
		return stream.Message{}, err
	}
	params := delivery.ParseParams(r.URL.RawQuery)
	if err := params.Check("end", "event", "key"); err != nil {
		return stream.Message{}, err
	}
	m := stream.Message{Channel: channel}
	switch text, ok := params.Get("end"); {
	case ok && text == "true":
		m.End = stream.EndMessage
	case ok && text != "false":
		return stream.Message{}, badRequest("end: want true or false")
	}
	m.Event, _ = params.Get("event")
	if err := checkEvent(m.Event); err != nil {
		return stream.Message{}, badRequest("event: %v", err)
	}
	m.Key, _ = params.Get("key")
	if !utf8.ValidString(m.Key) {
		return stream.Message{}, badRequest("key: not valid UTF-8")
	}
	if keys := r.Header.Values("Idempotency-Key"); len(keys) > 0 {
		m.IdempotencyKey = keys[0]
		if len(keys) > 1 || !idempotencyKey(m.IdempotencyKey) {
			return stream.Message{}, badRequest("Idempotency-Key: want it once, 1 to %d bytes", maxIdempotencyKey)
		}
	}
	return m, nil
}

const maxIdempotencyKey = 200

func idempotencyKey(key string) bool { return key != "" && len(key) <= maxIdempotencyKey }

// checkEvent says what is wrong with an event name. "" is none.
func checkEvent(name string) error {
	switch {
	case !utf8.ValidString(name):
		return errors.New("not valid UTF-8")
	case strings.ContainsAny(name, "\r\n\x00"):
		return errors.New("holds a CR, LF or NUL")
	case name == "open", name == "error", strings.HasPrefix(name, "rejoin."):
		return fmt.Errorf("%q is reserved, as are open, error and all that begins with rejoin.", name)
	}
	return nil
}

// channelOf is the channel in a request's path, unescaped once.
func channelOf(r *http.Request) (string, error) {
	name, err := url.PathUnescape(chi.URLParam(r, "channel"))
	if err != nil {
		return "", badRequest("channel: a %% must be followed by two hex digits")
	}
	if err := stream.CheckChannel(name); err != nil {
		return "", badRequest("channel: %v", err)
	}
	return name, nil
}

// tooLarge is a body or payload above its limit.
func tooLarge(what string, limit int) *problem {
	return &problem{
		Status: http.StatusRequestEntityTooLarge, Code: codeTooLarge,
		Detail: fmt.Sprintf("%s has at most %d bytes; nothing was appended", what, limit),
	}
}

// readBody reads a request's body as it is: UTF-8 of at most limit bytes, within
// BodyTimeout. what is said of a larger one.
func (a *API) readBody(w http.ResponseWriter, r *http.Request, limit int, what string) (string, error) {
	if r.ContentLength > int64(limit) {
		return "", tooLarge(what, limit)
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(a.o.BodyTimeout)); err != nil {
		return "", err
	}
	body := http.MaxBytesReader(w, r.Body, int64(limit))
	var buf bytes.Buffer
	// Room for a small body at once; a large one gets it as it comes, for what a
	// client claims to send it may never send.
	buf.Grow(int(min(max(r.ContentLength, 0), firstRoom)) + bytes.MinRead)
	if _, err := buf.ReadFrom(body); err != nil {
		// The deadline stays: it also bounds what the server reads of the rest.
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return "", tooLarge(what, limit)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "", &problem{
				Status: http.StatusRequestTimeout, Code: codeRequestTimeout,
				Detail: fmt.Sprintf("the body did not come within %v; nothing was appended", a.o.BodyTimeout),
			}
		}
		return "", badRequest("the body broke off; nothing was appended")
	}
	// Else it would count as a client that left while the log is asked.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return "", err
	}
	if !utf8.Valid(buf.Bytes()) {
		return "", badRequest("the body is not valid UTF-8; send bytes as base64, say")
	}
	return buf.String(), nil
}

// firstRoom is how many bytes of a body are made room for before any has come.
const firstRoom = 64 << 10

func writeJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
	return nil
}
