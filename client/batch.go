package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"rejoin/stream"
)

// Publication is one message of several to publish; see [PublishOptions].
type Publication struct {
	Channel        string `json:"channel"`
	Payload        string `json:"payload"`
	Event          string `json:"event,omitempty"`
	Key            string `json:"key,omitempty"`
	IdempotencyKey string `json:"idempotency_key"`
}

// Outcome is what became of one message of several.
type Outcome struct {
	Published
	Err error // a [*PublishError], or nil: the log has it
}

// What one request carries at most. A batch of more goes in several, one after
// the other.
const (
	batchMessages = 100
	batchBytes    = 512 << 10 // of messages, unless one alone is larger
)

// PublishBatch appends many messages, of one channel or several, with few
// requests. It promises what [Client.Publish] does, for each message: one that
// is refused does not stop the others, those of a channel keep their order, and
// what fails for now is tried again with the same key.
//
// It returns an outcome for each message, in their order. The error, if one or
// more failed, says how many, and wraps that of the first.
func (c *Client) PublishBatch(ctx context.Context, messages []Publication) ([]Outcome, error) {
	ctx, cancel := c.whileTrying(ctx)
	defer cancel()
	b := batch{c: c, messages: slices.Clone(messages), outcomes: make([]Outcome, len(messages))}
	var part []int
	bytes := 0
	for i := range b.messages {
		m := &b.messages[i]
		if m.IdempotencyKey == "" {
			m.IdempotencyKey = newKey()
		}
		b.outcomes[i].Channel = m.Channel
		if err := m.check(); err != nil {
			b.fail(i, 0, false, err)
			continue
		}
		if len(part) == batchMessages || len(part) > 0 && bytes+m.bytes() > batchBytes {
			b.publish(ctx, part, bytes)
			part, bytes = nil, 0
		}
		part = append(part, i)
		bytes += m.bytes()
	}
	if len(part) > 0 {
		b.publish(ctx, part, bytes)
	}
	return b.outcomes, b.err()
}

// batch is one call of PublishBatch. Messages are named by their index.
type batch struct {
	c        *Client
	messages []Publication
	outcomes []Outcome
}

func (b *batch) fail(i, attempts int, unknown bool, err error) {
	m := &b.messages[i]
	b.outcomes[i].Err = &PublishError{m.Channel, m.IdempotencyKey, attempts, unknown, err}
}

func (b *batch) err() error {
	failed, first := 0, error(nil)
	for _, o := range b.outcomes {
		if o.Err != nil {
			if failed++; first == nil {
				first = o.Err
			}
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d messages were not published; the first: %w", failed, len(b.outcomes), first)
}

// publish settles these messages, all in one request while none has to be tried
// again.
func (b *batch) publish(ctx context.Context, part []int, bytes int) {
	var channels []string
	for _, i := range part {
		channels = append(channels, b.messages[i].Channel)
	}
	slices.Sort(channels)
	pass, err := b.c.gate.enter(ctx, bytes, slices.Compact(channels)...)
	if err != nil {
		for _, i := range part {
			b.fail(i, 0, false, err)
		}
		return
	}
	defer b.c.gate.leave(pass)

	unknown := make([]bool, len(b.messages)) // of those in part
	tries := 0
	attempts, err := b.c.retry(ctx, func(ctx context.Context, server *url.URL) error {
		tries++
		results, err := b.request(ctx, server, part)
		if err != nil {
			for _, i := range part {
				unknown[i] = unknown[i] || mayHaveAppended(err)
			}
			return err
		}
		var again []int
		var last error
		for n, r := range results {
			i := part[n]
			if r.Error == nil {
				b.outcomes[i].ID, b.outcomes[i].Replayed = r.ID, r.Replayed
				continue
			}
			fault := r.Error.err()
			fault.RetryAfter = r.retryAfter
			unknown[i] = unknown[i] || mayHaveAppended(fault)
			if temporary(fault) || fault.Code == CodeNotAttempted {
				again, last = append(again, i), fault
				continue
			}
			b.fail(i, tries, unknown[i], fault)
		}
		if part = again; len(part) == 0 {
			return nil
		}
		return &retryable{last}
	})
	if err == nil {
		return
	}
	for _, i := range part {
		b.fail(i, attempts, unknown[i], err)
	}
}

// retryable is an error that some messages of a request came back with; all of
// them can be tried again.
type retryable struct{ err error }

func (e *retryable) Error() string { return e.err.Error() }
func (e *retryable) Unwrap() error { return e.err }

// result is one message's part of an answer.
type result struct {
	ID       stream.ID `json:"id"`
	Replayed bool      `json:"replayed"`
	Error    *problem  `json:"error"`

	retryAfter time.Duration // that the answer as a whole asked for
}

// request publishes these messages in one request. There is a result for each.
func (b *batch) request(ctx context.Context, server *url.URL, part []int) ([]result, error) {
	messages := make([]*Publication, len(part))
	for n, i := range part {
		messages[n] = &b.messages[i]
	}
	body, err := json.Marshal(map[string]any{"messages": messages})
	if err != nil {
		return nil, err
	}
	r, err := b.c.newRequest(ctx, http.MethodPost, server, "/v1/messages", nil, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	// What the keys in the body make true: the transport may send it again on a
	// connection of its pool that turns out to be dead.
	r.Header.Set("X-Idempotency-Key", messages[0].IdempotencyKey)
	resp, err := b.c.do(server, r)
	if err != nil {
		return nil, err
	}
	defer drain(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return nil, errorOf(resp)
	}
	var answer struct {
		Results []result `json:"results"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, int64(len(part))*maxProblem)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err) // cut: the ids are asked for again
	}
	if len(answer.Results) != len(part) {
		return nil, fmt.Errorf("%w: %d results for %d messages", ErrProtocol, len(answer.Results), len(part))
	}
	for n := range answer.Results {
		answer.Results[n].retryAfter = parseRetryAfter(resp.Header.Get("Retry-After"))
	}
	return answer.Results, nil
}
