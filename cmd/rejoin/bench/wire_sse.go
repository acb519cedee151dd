package bench

import "fmt"

// sseWire is GET /v1/sse: one response without an end.
type sseWire struct {
	response response
	events   events
	detail   []byte
}

func (w *sseWire) reset() {
	w.response.reset()
	w.events.reset()
	w.detail = w.detail[:0]
}

func (w *sseWire) request(k *client, b []byte) []byte {
	b = k.appendGet(b, "/v1/sse")
	if len(k.accounts) > 1 {
		b = append(b, "&format=json"...)
	}
	b = k.appendHost(b)
	b = append(b, "Accept: text/event-stream\r\nCache-Control: no-cache\r\n"...)
	if len(k.cursor) > 0 {
		b = append(b, "Last-Event-ID: "...)
		b = append(b, k.cursor...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

func (w *sseWire) take(k *client, p []byte, now int64) error {
	for {
		wasHead := !w.response.headDone()
		body, rest, err := w.response.next(p)
		if err != nil {
			k.counts.violations++
			return err
		}
		if wasHead && w.response.headDone() {
			k.onHead()
			if w.response.status == 200 && !w.response.stream {
				k.violation("a subscription was answered 200, but its Content-Type is not text/event-stream")
			}
		}
		for len(body) > 0 && w.response.status == 200 {
			var ok bool
			if body, ok = w.events.next(body); ok {
				if err := w.onEvent(k, &w.events.event, now); err != nil {
					return err
				}
			}
		}
		k.retry = w.events.retry
		if w.response.headDone() && w.response.status != 200 {
			w.detail = appendDetail(w.detail, body)
		}
		if w.response.done() {
			if w.response.status != 200 {
				return refusal(w.response.status, w.detail)
			}
			return errEnded
		}
		if p = rest; len(p) == 0 {
			return nil
		}
	}
}

func (w *sseWire) onEvent(k *client, v *event, now int64) error {
	if v.hasID {
		k.cursor = append(k.cursor[:0], v.id...)
	}
	if !v.hasData {
		return nil
	}
	switch string(v.name) {
	case "":
		payload, length := v.data, v.dataLen
		if len(k.accounts) > 1 {
			_, payload, length = jsonMessage(v.data, v.dataLen)
		}
		k.onMessage(payload, length, v.hasID, now)
	case "rejoin.ready":
		k.onReady(v.hasID, now)
	case "rejoin.gap":
		k.onGap(v.data)
	case "rejoin.move":
		k.onMove(v.data, now)
	case "rejoin.error", "rejoin.expired":
		return fmt.Errorf("the server sent %s %s", v.name, clip(v.data))
	}
	return nil // names not known are to be ignored
}
