package logtest

import (
	"errors"
	"fmt"
	"strconv"

	"rejoin/stream"
)

// append appends one message and checks its id against the rule of the append.
func (m *model) append(server int) error {
	s := &m.state
	msg := stream.Message{Channel: m.channel, Payload: strconv.Itoa(m.count)}
	if m.count%3 == 0 {
		msg.IdempotencyKey = "k" + msg.Payload
		m.keys = append(m.keys, key{msg.IdempotencyKey, msg})
	}
	k := m.logs[server].Known(m.channel)
	if k.Less(m.known[server]) {
		return fmt.Errorf("server %d knows %v, it was answered or has read %v", server, k, m.known[server])
	}
	a, err := m.logs[server].Append(m.ctx, msg)
	if err != nil {
		return err
	}
	id := a.ID
	m.note("  server %d, which knows %s, appends %d as %s", server, short(k), m.count, short(id))

	clock := m.clock
	if m.faults == nil {
		clock = stream.AtTime(m.logs[0].Now()).MS
	}
	renewed := s.last.IsZero() || k.MS > s.last.MS || k.MS >= s.life && k.N > s.last.N
	want := stream.ID{MS: max(clock, s.last.MS), N: s.last.N + 1}
	if renewed {
		want = stream.ID{MS: max(clock, s.last.MS+1), N: max(s.last.N, k.N) + 1}
		if k.MS <= clock+60_000 {
			want.MS = max(want.MS, k.MS+1)
		}
	}
	exact := !s.foreign && (m.faults != nil || !renewed) // foreign entries push the ms on
	switch {
	case a.Replayed:
		return fmt.Errorf("%v is a replay", id)
	case id.N != want.N || exact && id.MS != want.MS || id.MS < want.MS:
		return fmt.Errorf("server %d, which knows %v, with the clock at %d, appends %v after %v of life %d, want %v", server, k, clock, id, s.last, s.life, want)
	}

	if renewed {
		s.life = id.MS
		if id.N > 1 {
			m.disturbedAt, m.breaks[m.count] = m.steps, true
		}
	}
	for n, l := range m.lost {
		if l == open {
			switch {
			case !renewed:
				m.lost[n] = silent
			case id.N == 1:
				m.lost[n] = restarted
			default:
				m.lost[n] = noticed
			}
		}
	}
	m.taken(id)
	if s.gone {
		s.stored = len(s.chain)
	}
	s.gone, s.small = false, true
	s.chain = append(s.chain, message{m.count, id, s.life})
	s.last = id
	s.touched = m.logs[0].Now()
	if msg.IdempotencyKey != "" {
		s.answers[msg.IdempotencyKey] = id
	}
	m.known[server] = id
	m.messages = append(m.messages, s.chain[len(s.chain)-1])
	m.count++
	m.counts.messages++
	return nil
}

// taken notes an id as given, and whether it was before.
func (m *model) taken(id stream.ID) {
	_, before := m.twice[id]
	m.twice[id] = before
}

// repeat sends a message with an idempotency key again: as it was, or changed.
func (m *model) repeat(server, which int) error {
	if len(m.keys) == 0 || m.faults == nil { // keys end by time there
		return nil
	}
	k := m.keys[which%len(m.keys)]
	id, ok := m.state.answers[k.name]
	if !ok {
		return nil // lost with the store: it may be appended anew
	}
	a, err := m.logs[server].Append(m.ctx, k.message)
	if err != nil || a != (stream.Appended{ID: id, Replayed: true}) {
		return fmt.Errorf("the repeat of %s is answered %+v, %v, want a replay of %v", k.message.Payload, a, err, id)
	}
	k.message.Payload += "!"
	if a, err := m.logs[server].Append(m.ctx, k.message); !errors.Is(err, stream.ErrConflict) {
		return fmt.Errorf("the key of another message: %+v, %v, want ErrConflict", a, err)
	}
	return nil
}
