package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"rejoin/stream"
)

// PublishOptions are what a message may have beside its payload. Nil is none.
type PublishOptions struct {
	// Event is the name that a browser's EventSource dispatches the message
	// under. Not open, error, or what begins with "rejoin.".
	Event string
	// Key is what the message is about, such as a symbol.
	Key string
	// IdempotencyKey, 1-200 bytes, is made for you if empty. Set it to make a
	// publish safe to repeat after this process is gone.
	IdempotencyKey string
}

// Published is the answer to a publish: the log has the message.
type Published struct {
	Channel string
	ID      stream.ID
	// Replayed: an earlier publish with this idempotency key had appended the
	// message already.
	Replayed bool
}

// Publish appends one message to a channel and returns when the log has it. The
// payload is UTF-8 text and may be empty.
//
// A server or a log that is away is waited for: the message is tried again, with
// the same idempotency key, for [Options].RetryFor or until ctx ends, so it is
// appended once. What trying again cannot mend is returned at once.
//
// Publishes on one channel reach the log in the order of the calls, one after
// the other; those on other channels do not wait for them. Every error is a
// [*PublishError], which says whether the message may be in the log.
func (c *Client) Publish(ctx context.Context, channel, payload string, o *PublishOptions) (Published, error) {
	if o == nil {
		o = &PublishOptions{}
	}
	m := Publication{Channel: channel, Payload: payload, Event: o.Event, Key: o.Key, IdempotencyKey: o.IdempotencyKey}
	if m.IdempotencyKey == "" {
		m.IdempotencyKey = newKey()
	}
	failed := &PublishError{Channel: channel, IdempotencyKey: m.IdempotencyKey}
	if failed.Err = m.check(); failed.Err != nil {
		return Published{}, failed
	}
	ctx, cancel := c.whileTrying(ctx)
	defer cancel()
	pass, err := c.gate.enter(ctx, m.bytes(), channel)
	if err != nil {
		failed.Err = err
		return Published{}, failed
	}
	defer c.gate.leave(pass)

	var done Published
	failed.Attempts, failed.Err = c.retry(ctx, func(ctx context.Context, server *url.URL) (err error) {
		if done, err = c.publishOnce(ctx, server, &m); err != nil {
			failed.Unknown = failed.Unknown || mayHaveAppended(err)
		}
		return err
	})
	if failed.Err != nil {
		return Published{}, failed
	}
	return done, nil
}

// whileTrying is the caller's context, bounded by RetryFor.
func (c *Client) whileTrying(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.o.RetryFor, timeUp(c.o.RetryFor))
}

// publishOnce makes one request.
func (c *Client) publishOnce(ctx context.Context, server *url.URL, m *Publication) (Published, error) {
	query := url.Values{}
	if m.Event != "" {
		query.Set("event", m.Event)
	}
	if m.Key != "" {
		query.Set("key", m.Key)
	}
	r, err := c.newRequest(ctx, http.MethodPost, server, channelPath(m.Channel, "/messages"), query, strings.NewReader(m.Payload))
	if err != nil {
		return Published{}, err
	}
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	r.Header.Set("Idempotency-Key", m.IdempotencyKey)
	resp, err := c.do(server, r)
	if err != nil {
		return Published{}, err
	}
	defer drain(resp.Body)
	if resp.StatusCode != http.StatusCreated {
		return Published{}, errorOf(resp)
	}
	var answer struct {
		ID stream.ID `json:"id"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxProblem)).Decode(&answer); err != nil {
		return Published{}, fmt.Errorf("reading the answer: %w", err) // cut: the id is asked for again
	}
	return Published{m.Channel, answer.ID, resp.Header.Get("Idempotent-Replayed") == "true"}, nil
}

// drain reads what little may be left of an answer, so that its connection can
// be used again, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}

// overhead is what a publish counts for in the buffer beside its texts.
const overhead = 512

func (m *Publication) bytes() int {
	return len(m.Channel) + len(m.Payload) + len(m.Event) + len(m.Key) + len(m.IdempotencyKey) + overhead
}

// check refuses what no request can be made of; the rest is the server's to
// judge.
func (m *Publication) check() error {
	if err := stream.CheckChannel(m.Channel); err != nil {
		return &Error{Status: http.StatusBadRequest, Code: "bad_request", Detail: err.Error()}
	}
	if !utf8.ValidString(m.Payload) || !utf8.ValidString(m.Event) || !utf8.ValidString(m.Key) {
		return &Error{Status: http.StatusBadRequest, Code: "bad_request", Detail: "payload, event and key: want valid UTF-8; send bytes as base64, say"}
	}
	key := m.IdempotencyKey
	if len(key) > 200 || strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 || key != strings.TrimSpace(key) {
		return &Error{Status: http.StatusBadRequest, Code: "bad_request",
			Detail: "the idempotency key: want 1 to 200 bytes without control characters, and no space around them"}
	}
	return nil
}
