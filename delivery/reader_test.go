package delivery

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"rejoin/stream"
)

// reader drives a subscription as a transport does and checks what every client
// relies on: each message directly behind the one before, or a gap that says
// what is between.
type reader struct {
	t    testing.TB
	name string
	sub  *Subscription
	stop chan struct{}
	done chan struct{}

	batchN int // bytes asked for at a time

	mu    sync.Mutex // guards the following
	items []Item
	pos   map[string]stream.ID // cursor by channel
	owed  map[string]bool      // a gap was told: the next message is free
	ready bool
	state StateName
}

func read(t testing.TB, b *Broker, chans ...Channel) *reader {
	return readBy(t, b, 16<<10, chans...)
}

// readBy reads by batches of so many bytes.
func readBy(t testing.TB, b *Broker, batch int, chans ...Channel) *reader {
	r := &reader{t: t, sub: b.Subscribe(chans), stop: make(chan struct{}), done: make(chan struct{}),
		pos: map[string]stream.ID{}, owed: map[string]bool{}, batchN: batch}
	go r.run()
	return r
}

func (r *reader) run() {
	defer close(r.done)
	defer r.sub.Close()
	for {
		select {
		case <-r.sub.Wake():
		case <-r.stop:
			return
		}
		for more := true; more; {
			b := r.sub.Next(r.batchN)
			r.take(b)
			if b.Done {
				return
			}
			more = b.More
			select {
			case <-r.stop:
				return
			default:
			}
		}
	}
}

func (r *reader) take(b Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, it := range b.Items {
		r.items = append(r.items, it)
		switch it.Kind {
		case Ready:
			if r.ready {
				r.t.Errorf("%s: ready twice", r.name)
			}
			r.ready = true
			for _, c := range it.Ready {
				r.pos[c.Channel] = c.Cursor
				r.owed[c.Channel] = c.Cursor == stream.Earliest
			}
		case Message:
			pos := r.pos[it.Channel]
			if !r.ready {
				r.t.Errorf("%s: message %v before ready", r.name, it.Pos)
			}
			if !r.owed[it.Channel] && !stream.Follows(pos, &it.Record.Entry) {
				r.t.Errorf("%s: %s: message %v (prev %d) does not follow %v", r.name, it.Channel, it.Record.ID, it.Record.Prev, pos)
			}
			r.owed[it.Channel] = false
			r.pos[it.Channel] = it.Pos
		case Gap:
			r.pos[it.Channel] = it.Pos
			r.owed[it.Channel] = !it.Gap.Next.IsZero()
		case StateChange:
			if it.State.State == Live && r.state == Live && it.State.Channels == nil {
				r.t.Errorf("%s: live told twice", r.name)
			}
			r.state = it.State.State
		}
	}
}

// close ends the reader and returns its cursors.
func (r *reader) close() map[string]stream.ID {
	close(r.stop)
	<-r.done
	return r.pos
}

func (r *reader) snapshot() []Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Item(nil), r.items...)
}

// payloads are the messages had so far, in order.
func (r *reader) payloads() (out []string) {
	for _, it := range r.snapshot() {
		if it.Kind == Message {
			out = append(out, it.Record.Payload)
		}
	}
	return out
}

// told is everything but messages, in short form, in order, messages as "*".
func (r *reader) told() (out []string) {
	for _, it := range r.snapshot() {
		s := ""
		switch it.Kind {
		case Message:
			if len(out) > 0 && out[len(out)-1] == "*" {
				continue
			}
			s = "*"
		case Ready:
			s = "ready"
			for _, c := range it.Ready {
				s += fmt.Sprintf(" +%d", c.Replay)
			}
		case Gap:
			s = fmt.Sprintf("gap %s %d", it.Gap.Reason, it.Gap.Missed)
			if it.Gap.Next.IsZero() {
				s += " end"
			}
		case StateChange:
			s = string(it.State.State)
			for _, c := range it.State.Channels {
				s += " " + c
			}
		case Move:
			s = "move"
		case Error:
			s = "error"
		}
		out = append(out, s)
	}
	return out
}

func publish(t testing.TB, l stream.Log, channel, payload string) stream.ID {
	t.Helper()
	a, err := l.Append(context.Background(), stream.Message{Channel: channel, Payload: payload})
	if err != nil {
		t.Fatalf("publish %s: %v", payload, err)
	}
	return a.ID
}

func publishN(t testing.TB, l stream.Log, channel string, from, n int) (ids []stream.ID) {
	t.Helper()
	for i := from; i < from+n; i++ {
		ids = append(ids, publish(t, l, channel, fmt.Sprint(i)))
	}
	return ids
}

func numbers(from, n int) (out []string) {
	for i := from; i < from+n; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}
