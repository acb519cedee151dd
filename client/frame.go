package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"rejoin/stream"
)

// The objects of the contract, as they come.
type (
	messageObject struct {
		Channel string    `json:"channel"`
		ID      stream.ID `json:"id"`
		Time    time.Time `json:"time"`
		Payload string    `json:"payload"`
		Event   string    `json:"event"`
		Key     string    `json:"key"`
	}
	readyObject struct {
		Channels map[string]struct {
			Cursor stream.ID `json:"cursor"`
			Replay uint64    `json:"replay"`
		} `json:"channels"`
		Cursor string `json:"cursor"`
		Retry  int64  `json:"retry"` // on a WebSocket
	}
	gapObject struct {
		Channel string        `json:"channel"`
		After   stream.ID     `json:"after"`
		Next    *stream.ID    `json:"next"`
		Missed  *uint64       `json:"missed"`
		Reason  stream.Reason `json:"reason"`
		Cursor  stream.ID     `json:"cursor"` // on a WebSocket: the position from which reading goes on
	}
	stateObject struct {
		State    StateName `json:"state"`
		Since    time.Time `json:"since"`
		Channels []string  `json:"channels"`
	}
	moveObject struct {
		Within int64 `json:"within"` // ms
	}
	endObject struct {
		Channel string    `json:"channel"`
		ID      stream.ID `json:"id"`
	}
)

func (o *messageObject) message(cursor string) Message {
	return Message{at(cursor), o.Channel, o.ID, o.Time, o.Payload, o.Event, o.Key}
}

func (o *gapObject) gap(cursor string) Gap {
	g := Gap{at: at(cursor), Channel: o.Channel, After: o.After, Reason: o.Reason}
	if o.Next != nil {
		g.Next = *o.Next
	}
	if o.Missed != nil {
		g.Missed = *o.Missed
	}
	return g
}

func parse(data []byte, what string, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: a %s that does not read: %w", ErrProtocol, what, err)
	}
	return nil
}

// frame takes one frame of a stream: name is "message", or that of a told thing.
// id is the cursor behind it as the stream says it; where it says none, on a
// WebSocket, the cursor is made of the frame. The error ends the connection.
func (s *subscription) frame(l *line, name string, data []byte, id string) error {
	switch name {
	case "message":
		var o messageObject
		if err := parse(data, name, &o); err != nil {
			return err
		}
		if err := s.move(o.Channel, o.ID, id); err != nil {
			return err
		}
		return s.told(o.message(s.cursor))
	case "ready":
		var o readyObject
		if err := parse(data, name, &o); err != nil {
			return err
		}
		if o.Retry > 0 {
			s.retry = milliseconds(o.Retry)
		}
		e := Ready{Channels: make(map[string]ReadyChannel, len(o.Channels))}
		for channel, r := range o.Channels {
			e.Channels[channel] = ReadyChannel(r)
			s.places.move(channel, r.Cursor)
		}
		s.cursor, s.up = o.Cursor, true
		e.at = at(s.cursor)
		return s.told(e)
	case "gap":
		var o gapObject
		if err := parse(data, name, &o); err != nil {
			return err
		}
		if o.Reason == Reset {
			delete(s.ended, o.Channel)
		}
		if err := s.move(o.Channel, o.Cursor, id); err != nil {
			return err
		}
		return s.told(o.gap(s.cursor))
	case "state":
		var o stateObject
		if err := parse(data, name, &o); err != nil {
			return err
		}
		return s.told(State{at(s.cursor), o.State, o.Since, o.Channels})
	case "move":
		var o moveObject
		if err := parse(data, name, &o); err != nil {
			return err
		}
		s.moved = true
		within := milliseconds(o.Within)
		l.leave(within)
		return s.told(Move{at(s.cursor), within})
	case "end":
		var o endObject
		if err := parse(data, name, &o); err != nil {
			return err
		}
		if err := s.move(o.Channel, o.ID, id); err != nil {
			return err
		}
		return s.end(o.Channel, o.ID)
	case "expired":
		return errExpired
	case "error":
		var p problem
		if err := parse(data, name, &p); err != nil {
			return err
		}
		return p.err()
	}
	return nil // a later version's
}

// move moves a channel and the cursor: to id, if the stream says it, else to
// what the channels' places make.
func (s *subscription) move(channel string, pos stream.ID, id string) error {
	if !slices.Contains(s.channels, channel) {
		return fmt.Errorf("%w: something of the channel %.200q, which was not asked for", ErrProtocol, channel)
	}
	if id == "" {
		s.places.move(channel, pos)
		id = s.places.cursor()
	}
	s.cursor = id
	return nil
}

// milliseconds bounds a time that a server names: a larger one is no use to wait
// for.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), mostRetryAfter.Milliseconds())) * time.Millisecond
}
