package ws

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gobwas/ws"

	"rejoin/delivery"
	"rejoin/stream"
)

// Grant is what a client may read, and until when. The zero value is every
// channel, for good.
type Grant struct {
	// CheckRead refuses a channel by an error, which the client is told; nil:
	// none is refused.
	CheckRead func(channel string) error
	// Expires is when the client's token runs out; zero: never.
	Expires time.Time
}

// check is CheckRead on several channels.
func (g Grant) check(channels []string) error {
	if g.CheckRead == nil {
		return nil
	}
	for _, c := range channels {
		if err := g.CheckRead(c); err != nil {
			return err
		}
	}
	return nil
}

// session is the client's side of a connection: it reads its bytes and does what
// they ask. It belongs to the read goroutine.
type session struct {
	h        *Handler
	sub      *delivery.Subscription
	box      *mailbox
	encoder  *Encoder
	reader   Reader
	channels []string // that the subscription reads
	grant    Grant
}

// heard is what became of the bytes that came.
type heard uint8

const (
	goesOn  heard = iota // more is wanted
	over                 // the client has said its last word
	garbled              // what follows means nothing
)

// receive takes bytes from the client and does what they ask.
func (s *session) receive(b []byte) heard {
	for m, err := range s.reader.Messages(b) {
		if err != nil {
			v := s.reader.failed
			s.box.end(ending{code: v.Code, reason: v.Reason, then: delivery.HalfClose})
			return garbled
		}
		switch m.Op {
		case ws.OpPing:
			s.box.ping(m.Payload)
		case ws.OpPong: // that it came is all it says
		case ws.OpClose:
			code, _ := ws.ParseCloseFrameData(m.Payload)
			s.box.end(ending{code: code, then: delivery.CloseNow}) // section 5.5.1: echo the code
			return over
		default:
			s.do(m)
		}
	}
	return goesOn
}

// do does what a message asks. Its answer, which may be an error, is one that is
// owed until it is sent. A channel that is added owes none here: their number
// has its own bound.
func (s *session) do(m Message) {
	if !s.box.owe() {
		return // this side closes
	}
	ref, err := json.RawMessage(nil), error(nil)
	if m.Op == ws.OpText {
		var c command
		if c, err = parseCommand(m.Payload); err == nil {
			err = s.obey(&c)
		}
		ref = c.Ref
	} else {
		err = &delivery.RequestError{Name: "message", Reason: "want text frames, not binary ones"}
	}
	if err != nil {
		s.box.answer(s.encoder.Error(err, ref))
	}
}

// obey does what a command says.
func (s *session) obey(c *command) error {
	switch c.Type {
	case "subscribe":
		if err := s.subscribe(c); err != nil {
			return err
		}
		s.box.paid(1)
	case "unsubscribe":
		if err := s.sub.Remove(c.Channel, c.Ref); err != nil {
			return &delivery.RequestError{Name: "channel", Reason: fmt.Sprintf("this connection does not read %.200q", c.Channel)}
		}
		s.channels = slices.DeleteFunc(s.channels, func(name string) bool { return name == c.Channel })
	case "auth":
		return s.auth(c)
	default:
		return &delivery.RequestError{Name: "type", Reason: "want subscribe, unsubscribe or auth; messages are published by POST /v1/channels/{channel}/messages"}
	}
	return nil
}

func (s *session) subscribe(c *command) error {
	if err := stream.CheckChannel(c.Channel); err != nil {
		return &delivery.RequestError{Name: "channel", Reason: err.Error()}
	}
	if err := s.grant.check([]string{c.Channel}); err != nil {
		return err
	}
	start, err := c.start(s.h.o.Rewind)
	if err != nil {
		return err
	}
	if len(s.channels) >= s.h.o.MaxChannels && !slices.Contains(s.channels, c.Channel) {
		return &delivery.RequestError{Name: "channel", Reason: fmt.Sprintf("more than %d on one connection", s.h.o.MaxChannels)}
	}
	if err := s.sub.Add(delivery.Channel{Name: c.Channel, Start: start}, c.Ref); err != nil {
		return &delivery.RequestError{Name: "channel", Reason: "this connection reads " + c.Channel + " already"}
	}
	s.channels = append(s.channels, c.Channel)
	return nil
}

// auth takes a new token. One that is refused changes nothing; one that does not
// cover a channel being read ends the connection.
func (s *session) auth(c *command) error {
	if s.h.o.Auth == nil {
		return &delivery.RequestError{Name: "auth", Reason: "this server asks nobody who they are"}
	}
	grant, err := s.h.o.Auth(c.Token)
	if err != nil {
		return err
	}
	if err := grant.check(s.channels); err != nil {
		s.box.end(ending{then: delivery.AwaitClose, code: closeNotAllowed, reason: "the new token does not cover what this connection reads", last: s.encoder.Error(err, c.Ref)})
		s.box.paid(1)
		return nil
	}
	s.allow(grant)
	s.box.answer(authFrame(c.Ref))
	return nil
}

// allow makes the grant the session's; the subscription ends when it expires.
func (s *session) allow(g Grant) {
	s.grant = g
	s.sub.ExpireAt(g.Expires)
}
