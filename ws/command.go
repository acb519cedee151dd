package ws

import (
	"encoding/json"
	"errors"
	"fmt"

	"rejoin/delivery"
	"rejoin/stream"
)

// command is what a client's message asks for. Fields it does not know are
// ignored.
type command struct {
	Type    string          `json:"type"`
	Channel string          `json:"channel"`
	After   string          `json:"after"`
	Rewind  *int            `json:"rewind"`
	Token   string          `json:"token"`
	Ref     json.RawMessage `json:"ref"`
}

// maxRef is how long a ref may be, as it is written in JSON.
const maxRef = 200

// parseCommand reads a message. With an error, a [*delivery.RequestError], the
// command has the ref alone, if that could be read.
func parseCommand(text []byte) (command, error) {
	var c command
	err := json.Unmarshal(text, &c)
	if string(c.Ref) == "null" {
		c.Ref = nil
	}
	if !isRef(c.Ref) {
		return command{}, &delivery.RequestError{Name: "ref", Reason: fmt.Sprintf("want a string or a number of at most %d bytes", maxRef)}
	}
	if err == nil {
		return c, nil
	}
	reason := `want a JSON object, as in {"type":"subscribe","channel":"news"}`
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		want := "a string"
		if wrong.Field == "rewind" {
			want = "a number"
		}
		return command{Ref: c.Ref}, &delivery.RequestError{Name: wrong.Field, Reason: "want " + want}
	}
	return command{Ref: c.Ref}, &delivery.RequestError{Name: "message", Reason: reason}
}

func isRef(ref json.RawMessage) bool {
	if len(ref) == 0 {
		return true
	}
	return len(ref) <= maxRef && (ref[0] == '"' || ref[0] == '-' || '0' <= ref[0] && ref[0] <= '9')
}

// start is where reading the channel of a subscribe begins: after its cursor;
// for a channel of which that does not speak, with its rewind, else with the
// server's own rule.
func (c *command) start(rewind func(channel string) int) (delivery.Start, error) {
	if c.Rewind != nil && (*c.Rewind < 0 || *c.Rewind > delivery.MaxRewind) {
		return delivery.Start{}, &delivery.RequestError{Name: "rewind", Reason: fmt.Sprintf("want a number from 0 to %d", delivery.MaxRewind)}
	}
	if c.After != "" {
		cursor, err := stream.ParseCursor(c.After)
		if err != nil {
			return delivery.Start{}, &delivery.RequestError{Name: "after", Reason: err.Error()}
		}
		if pos, ok := cursor.Position(c.Channel); ok {
			return delivery.StartAfter(pos), nil
		}
	}
	n := 0
	switch {
	case c.Rewind != nil:
		n = *c.Rewind
	case rewind != nil:
		n = rewind(c.Channel)
	}
	if n <= 0 {
		return delivery.Start{}, nil
	}
	return delivery.StartRewind(n), nil
}
