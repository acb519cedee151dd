package main

import (
	"fmt"

	"rejoin/config"
	"rejoin/stream"
)

// rules finds what holds for a channel: the first rule whose pattern covers its
// name, else the settings for all. It never changes.
type rules struct {
	patterns []stream.Pattern // of channels, in order
	channels []config.Channel
	others   config.Channel
}

// newRules parses the patterns of the settings.
func newRules(c *config.Config) (*rules, error) {
	r := &rules{
		channels: c.Channels,
		others:   config.Channel{Retention: c.Retention, Payload: c.Limits.Payload},
	}
	for i, ch := range c.Channels {
		p, err := stream.ParsePattern(ch.Match)
		if err != nil {
			return nil, c.Fault(fmt.Sprintf("channels[%d].match", i), err.Error())
		}
		r.patterns = append(r.patterns, p)
	}
	return r, nil
}

func (r *rules) of(channel string) *config.Channel {
	for i, p := range r.patterns {
		if p.Match(channel) {
			return &r.channels[i]
		}
	}
	return &r.others
}

func (r *rules) retention(channel string) stream.Retention {
	return stream.Retention(r.of(channel).Retention)
}

func (r *rules) payload(channel string) int { return int(r.of(channel).Payload) }

func (r *rules) rewind(channel string) int { return r.of(channel).Rewind }
