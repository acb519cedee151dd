package client

import (
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

// How long a server holds a poll at the least and at most.
const (
	minPoll = time.Second
	maxPoll = 60 * time.Second
)

// pollAnswer is the answer to a poll.
type pollAnswer struct {
	Messages []messageObject `json:"messages"`
	Gaps     []gapObject     `json:"gaps"`
	Ended    []string        `json:"ended"`
	Cursor   string          `json:"cursor"`
	State    StateName       `json:"state"`
	Retry    int64           `json:"retry"`
}

func (a *pollAnswer) empty() bool {
	return len(a.Messages)+len(a.Gaps)+len(a.Ended) == 0
}

// poll polls one server until a poll fails, and returns why.
func (s *subscription) poll(ctx context.Context, server *url.URL) error {
	for {
		asked, from := time.Now(), s.cursor
		a, err := s.pollOnce(ctx, server)
		if err != nil {
			return err
		}
		s.c.answered(server)
		if s.retry = milliseconds(a.Retry); s.retry == 0 {
			s.retry = firstWait
		}
		if err := s.answer(a); err != nil {
			return err
		}
		// A server holds such a poll. What answers for it at once, a cache
		// say, must not be asked without a pause.
		if a.empty() && s.cursor == from && time.Since(asked) < time.Second {
			if err := sleep(ctx, s.retry); err != nil {
				return err
			}
		}
	}
}

func (s *subscription) pollOnce(ctx context.Context, server *url.URL) (*pollAnswer, error) {
	hold := min(s.hold, maxPoll)
	if !s.up {
		hold = minPoll // so that ready is told soon
	}
	l := open(ctx, hold+s.c.o.Timeout)
	defer l.close()
	query := s.query()
	query.Set("timeout", hold.String())
	r, err := s.c.newRequest(l.ctx, http.MethodGet, server, "/v1/poll", query, nil)
	if err != nil {
		return nil, l.why(err)
	}
	resp, err := s.c.do(server, r)
	if err != nil {
		return nil, l.why(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errorOf(resp)
	}
	// The contract's 1 MiB, or one larger message.
	most := int64(s.c.o.MaxMessageBytes + 2<<20)
	body, err := io.ReadAll(io.LimitReader(&awaited{resp.Body, l, s}, most+1))
	switch {
	case err != nil:
		return nil, l.why(err)
	case int64(len(body)) > most:
		return nil, tooLarge(s.c.o.MaxMessageBytes)
	}
	var a pollAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: an answer that does not read: %w", ErrProtocol, err)
	}
	return &a, nil
}

// answer yields what is in an answer, each with a cursor of its own: the
// answer's is behind all of it.
func (s *subscription) answer(a *pollAnswer) error {
	behind, err := stream.ParseCursor(a.Cursor)
	if err != nil {
		return fmt.Errorf("%w: an answer without a cursor", ErrProtocol)
	}
	// What says nothing of a channel has not moved it, or has just found where
	// it is.
	for _, name := range s.channels {
		if id, ok := behind.Position(name); ok && !a.speaksOf(name) {
			s.places.move(name, id)
		}
	}
	s.cursor = s.places.cursor()
	if !s.up {
		s.up = true
		e := Ready{at: at(s.cursor), Channels: map[string]ReadyChannel{}}
		for _, name := range s.channels {
			if id, ok := s.places.of(name); ok {
				e.Channels[name] = ReadyChannel{Cursor: id}
			}
		}
		if err := s.told(e); err != nil {
			return err
		}
	}
	gaps := a.Gaps
	for i := range a.Messages {
		m := &a.Messages[i]
		for {
			// Its gap ends at this message, or began before it.
			at := slices.IndexFunc(gaps, func(g gapObject) bool {
				return g.Channel == m.Channel && (g.Next == nil && g.After.Less(m.ID) || g.Next != nil && *g.Next == m.ID)
			})
			if at < 0 {
				break
			}
			if err := s.pollGap(&gaps[at], nil); err != nil {
				return err
			}
			gaps = slices.Delete(gaps, at, at+1)
		}
		if err := s.move(m.Channel, m.ID, ""); err != nil {
			return err
		}
		if err := s.told(m.message(s.cursor)); err != nil {
			return err
		}
	}
	for i := range gaps {
		if err := s.pollGap(&gaps[i], &behind); err != nil {
			return err
		}
	}
	for _, name := range a.Ended {
		id, _ := behind.Position(name)
		if err := s.move(name, id, ""); err != nil {
			return err
		}
		if err := s.end(name, id); err != nil {
			return err
		}
	}
	s.places.jump(behind)
	s.cursor = a.Cursor
	if a.State != s.state {
		s.state = a.State
		return s.told(State{at: at(s.cursor), Name: a.State})
	}
	return nil
}

// pollGap tells a gap. behind, if nothing of the channel comes after it in this
// answer, is where it leads; else the position stays until its next message.
func (s *subscription) pollGap(g *gapObject, behind *stream.Cursor) error {
	if g.Reason == Reset {
		delete(s.ended, g.Channel)
	}
	pos := g.After
	if id, ok := s.places.of(g.Channel); ok {
		pos = id
	}
	if behind != nil {
		if id, ok := behind.Position(g.Channel); ok {
			pos = id
		}
	}
	if err := s.move(g.Channel, pos, ""); err != nil {
		return err
	}
	return s.told(g.gap(s.cursor))
}

// speaksOf reports whether the answer has something of a channel.
func (a *pollAnswer) speaksOf(channel string) bool {
	return slices.Contains(a.Ended, channel) ||
		slices.ContainsFunc(a.Messages, func(m messageObject) bool { return m.Channel == channel }) ||
		slices.ContainsFunc(a.Gaps, func(g gapObject) bool { return g.Channel == channel })
}
