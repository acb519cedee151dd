package ws

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rejoin/stream"
)

// The end of every channel ends the connection; an ended channel that is read
// no more does not hold it open.
// Holds G117.
func TestEndedChannels(t *testing.T) {
	end := func(p *pipe, m stream.Message) stream.ID {
		done, err := p.log.Append(p.t.Context(), m)
		require.NoError(p.t, err)
		return done.ID
	}
	t.Run("all", func(t *testing.T) {
		bubble(t, Options{}, Grant{}, []string{"a", "b"}, func(t *testing.T, p *pipe) {
			p.live()
			id := end(p, stream.Message{Channel: "a", End: stream.EndAlone})
			require.Equal(t, map[string]any{"type": "end", "channel": "a", "id": id.String()}, p.next().fields(t))
			p.publish("b", "on")
			require.Equal(t, "message", p.next().kind())
			id = end(p, stream.Message{Channel: "b", Payload: "last", End: stream.EndMessage})
			require.Equal(t, "last", p.next().fields(t)["payload"])
			require.Equal(t, map[string]any{"type": "end", "channel": "b", "id": id.String()}, p.next().fields(t))
			require.Equal(t, "close 1000", p.next().kind())
			p.send(masked(final|opClose, closing(1000, "")))
			p.closed()
		})
	})
	t.Run("the last that has not ended is given up", func(t *testing.T) {
		bubble(t, Options{}, Grant{}, []string{"a", "b"}, func(t *testing.T, p *pipe) {
			p.live()
			end(p, stream.Message{Channel: "a", End: stream.EndAlone})
			require.Equal(t, "end", p.next().kind())
			p.text(`{"type":"unsubscribe","channel":"b"}`)
			require.Equal(t, "unsubscribed", p.next().kind())
			require.Equal(t, "close 1000", p.next().kind())
		})
	})
	t.Run("none is left", func(t *testing.T) {
		bubble(t, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
			p.live()
			p.text(`{"type":"unsubscribe","channel":"a"}`)
			require.Equal(t, "unsubscribed", p.next().kind())
			p.text(`{"type":"subscribe","channel":"b"}`)
			require.Equal(t, "subscribed", p.next().kind(), "a connection without channels stays open")
		})
	})
}

// guard lets a client read what begins with prefix.
func guard(prefix string) func(string) error {
	return func(channel string) error {
		if strings.HasPrefix(channel, prefix) {
			return nil
		}
		return errors.New("you may not read " + channel)
	}
}

// A token that runs out is told, and ends the connection; a new one in time
// keeps it.
func TestExpiry(t *testing.T) {
	auth := func(token string) (Grant, error) {
		switch token {
		case "longer":
			return Grant{CheckRead: guard("a"), Expires: time.Now().Add(time.Hour)}, nil
		case "for good":
			return Grant{}, nil
		case "other":
			return Grant{CheckRead: guard("b")}, nil
		}
		return Grant{}, errors.New("no such token")
	}
	short := func(test func(t *testing.T, p *pipe)) func(*testing.T) {
		return func(t *testing.T) {
			// A grant's time must be the bubble's, so it comes in-band.
			o := Options{Auth: func(token string) (Grant, error) {
				if token == "short" {
					return Grant{CheckRead: guard("a"), Expires: time.Now().Add(5 * time.Second)}, nil
				}
				return auth(token)
			}}
			bubble(t, o, Grant{}, one, func(t *testing.T, p *pipe) {
				p.live()
				p.text(`{"type":"auth","token":"short","ref":1}`)
				require.Equal(t, map[string]any{"type": "auth", "ref": 1.0}, p.next().fields(t))
				test(t, p)
			})
		}
	}
	t.Run("runs out", short(func(t *testing.T, p *pipe) {
		begun := time.Now()
		require.Equal(t, "expired", p.next().kind())
		require.Equal(t, "close 4001", p.next().kind())
		require.Equal(t, 5*time.Second, time.Since(begun))
		p.send(masked(final|opClose, closing(4001, "")))
		p.closed()
	}))
	t.Run("longer", short(func(t *testing.T, p *pipe) {
		p.text(`{"type":"auth","token":"longer"}`)
		require.Equal(t, `{"type":"auth"}`, p.next().payload)
		time.Sleep(10 * time.Second)
		p.publish("a", "x")
		require.Equal(t, "message", p.next().kind())
	}))
	t.Run("for good", short(func(t *testing.T, p *pipe) {
		p.text(`{"type":"auth","token":"for good"}`)
		require.Equal(t, "auth", p.next().kind())
		p.text(`{"type":"subscribe","channel":"b"}`)
		require.Equal(t, "subscribed", p.next().kind())
		p.next("state")
		time.Sleep(10 * time.Second)
		p.publish("a", "x")
		require.Equal(t, "message", p.next().kind())
	}))
	t.Run("refused", short(func(t *testing.T, p *pipe) {
		p.text(`{"type":"auth","token":"wrong","ref":"r"}`)
		e := p.next().fields(t)
		require.Equal(t, "no such token", e["detail"])
		require.Equal(t, "r", e["ref"])
		require.Equal(t, "expired", p.next().kind(), "the old one still counts")
	}))
	t.Run("of other channels", short(func(t *testing.T, p *pipe) {
		p.text(`{"type":"auth","token":"other","ref":"r"}`)
		e := p.next().fields(t)
		require.Equal(t, "error", e["type"])
		require.Equal(t, "you may not read a", e["detail"])
		require.Equal(t, "close 4003", p.next().kind())
	}))
}

// What a client may not read it cannot add; the connection goes on.
// Holds G117.
func TestNotAllowed(t *testing.T) {
	bubble(t, Options{}, Grant{CheckRead: guard("a")}, one, func(t *testing.T, p *pipe) {
		p.live()
		p.text(`{"type":"subscribe","channel":"b","ref":1}`)
		e := p.next().fields(t)
		require.Equal(t, "you may not read b", e["detail"])
		require.EqualValues(t, 1, e["ref"])
		p.text(`{"type":"subscribe","channel":"ab","ref":2}`)
		require.Equal(t, "subscribed", p.next().kind())
	})
}

// awayLog is a log that cannot be heard until it is back.
type awayLog struct {
	stream.Log
	back chan struct{}
}

func (l awayLog) Listen(ctx context.Context, part int) (stream.Session, error) {
	select {
	case <-l.back:
		return l.Log.Listen(ctx, part)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// While the log is away a connection is accepted and told stale; what a client
// asks meanwhile is answered in order when it is back.
func TestLogAway(t *testing.T) {
	back := make(chan struct{})
	synctestLog := func(l stream.Log) stream.Log {
		back = make(chan struct{}) // the bubble's own
		return awayLog{l, back}
	}
	bubbleOn(t, synctestLog, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		require.Equal(t, "stale", p.next("state").fields(t)["state"])
		p.text(`{"type":"subscribe","channel":"b","ref":"B"}`)
		p.text(`{"type":"subscribe","channel":"c","ref":"C"}`)
		p.text(`{"type":"unsubscribe","channel":"c","ref":"-C"}`)
		require.Equal(t, "-C", p.next("unsubscribed").fields(t)["ref"])
		p.send(masked(final|opPing, "alive"))
		p.next("pong alive")
		p.publish("b", "while away")
		close(back)
		ready := p.next("ready").fields(t)
		require.Contains(t, ready["channels"], "a")
		require.NotContains(t, ready["channels"], "b", "it has its own answer")
		subscribed := p.next("subscribed").fields(t)
		require.Equal(t, "b", subscribed["channel"])
		require.Equal(t, "B", subscribed["ref"])
		require.Equal(t, "while away", p.next("message").fields(t)["payload"])
		require.Equal(t, "live", p.next("state").fields(t)["state"])
	})
}

// brokenLog has one channel that cannot be read.
type brokenLog struct{ stream.Log }

type brokenSession struct{ stream.Session }

func (l brokenLog) Listen(ctx context.Context, part int) (stream.Session, error) {
	s, err := l.Log.Listen(ctx, part)
	return brokenSession{s}, err
}

func (s brokenSession) Read(ctx context.Context, queries []stream.Query) ([]stream.Page, error) {
	pages, err := s.Session.Read(ctx, queries)
	for i := range pages {
		if pages[i].Channel == "broken" {
			pages[i].Err = &stream.Error{Op: "read", Channel: "broken", Kind: stream.ErrBroken}
		}
	}
	return pages, err
}

// A channel that cannot be read is told, and ends the connection.
// Holds G117.
func TestBrokenChannel(t *testing.T) {
	wrap := func(l stream.Log) stream.Log { return brokenLog{l} }
	bubbleOn(t, wrap, Options{}, Grant{}, []string{"broken"}, func(t *testing.T, p *pipe) {
		require.Equal(t, "read broken: log broken", p.next("error").fields(t)["detail"])
		require.Equal(t, "close 1011", p.next().kind())
	})
	bubbleOn(t, wrap, Options{}, Grant{}, one, func(t *testing.T, p *pipe) {
		p.live()
		p.text(`{"type":"subscribe","channel":"broken"}`)
		require.Equal(t, "read broken: log broken", p.next("error").fields(t)["detail"])
		require.Equal(t, "close 1011", p.next().kind())
	})
}
