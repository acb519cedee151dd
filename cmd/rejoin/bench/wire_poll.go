package bench

import (
	"encoding/json"
	"errors"
	"time"
)

// pollTimeout is how long a poll asks to be held.
const pollTimeout = 55 * time.Second

// pollWire is GET /v1/poll, one after the other on one connection. The answer
// to a poll without a cursor is ready; a poll with one is ready once it is sent.
type pollWire struct {
	response response
	body     []byte
}

// maxAnswer bounds an answer's body: the contract's 1 MiB of messages, and one
// message at least.
const maxAnswer = 1<<20 + 2*MaxSize

var errAnswer = errors.New("the answer to a poll is not what the contract says")

func (w *pollWire) reset() {
	w.response.reset()
	w.body = nil
}

func (w *pollWire) request(k *client, b []byte) []byte {
	b = k.appendGet(b, "/v1/poll")
	b = append(b, "&timeout="...)
	b = append(b, pollTimeout.String()...)
	b = append(b, "&limit=1000"...)
	if len(k.cursor) > 0 {
		b = append(b, "&lastEventId="...)
		b = append(b, k.cursor...)
	}
	return append(k.appendHost(b), "\r\n"...)
}

func (w *pollWire) take(k *client, p []byte, now int64) error {
	for len(p) > 0 {
		body, rest, err := w.response.next(p)
		if err == nil && len(w.body)+len(body) > maxAnswer {
			err = errAnswer
		}
		if err != nil {
			k.counts.violations++
			return err
		}
		w.body = append(w.body, body...)
		p = rest
		if !w.response.done() {
			continue
		}
		k.onHead()
		if w.response.status != 200 {
			return refusal(w.response.status, clip(w.body))
		}
		if err := w.onAnswer(k, now); err != nil {
			return err
		}
		if w.response.close {
			return errEnded
		}
		w.reset()
		k.out = w.request(k, k.out)
	}
	return nil
}

func (w *pollWire) onAnswer(k *client, now int64) error {
	var a struct {
		Messages []struct{ ID, Payload string }
		Gaps     []json.RawMessage
		Cursor   string
		Retry    int64
	}
	if json.Unmarshal(w.body, &a) != nil || a.Cursor == "" {
		k.counts.violations++
		return errAnswer
	}
	if !k.ready {
		k.onReady(true, now)
	}
	for _, gap := range a.Gaps {
		k.onGap(gap)
	}
	for _, m := range a.Messages {
		k.onMessage([]byte(m.Payload), len(m.Payload), m.ID != "", now)
	}
	k.cursor = append(k.cursor[:0], a.Cursor...)
	k.retry = time.Duration(a.Retry) * time.Millisecond
	return nil
}
