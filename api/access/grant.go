package access

import (
	"slices"
	"time"

	"rejoin/stream"
)

// Rights are what may be done: on the channels that a pattern covers, and Admin
// for what is not about one channel's messages. None includes another.
type Rights struct {
	Read    []stream.Pattern // subscribe, history, a channel's description
	Publish []stream.Pattern // publish, end
	Admin   bool             // delete, list, disconnect
}

// Grant is what the client of one request may do, and until when. The zero value
// is nothing.
type Grant struct {
	// Name is the API key's, or the token's sub; "" for neither.
	Name string
	// Anonymous: no token was given.
	Anonymous bool
	// Expires is when the token runs out; zero: never.
	Expires time.Time

	open   bool
	own    Rights
	anyone *Rights // nil: nothing
}

// Open is the grant of a server that asks nobody: everything, for good.
func Open() Grant { return Grant{Anonymous: true, open: true} }

// MayRead reports whether the channel's messages may be read.
func (g *Grant) MayRead(channel string) bool {
	return g.open || covers(g.own.Read, channel) || g.anyone != nil && covers(g.anyone.Read, channel)
}

// MayPublish reports whether the channel may be published to and ended.
func (g *Grant) MayPublish(channel string) bool {
	return g.open || covers(g.own.Publish, channel) || g.anyone != nil && covers(g.anyone.Publish, channel)
}

// PublishesAnywhere reports whether there can be a channel that may be published
// to.
func (g *Grant) PublishesAnywhere() bool {
	return g.open || len(g.own.Publish) > 0 || g.anyone != nil && len(g.anyone.Publish) > 0
}

// IsAdmin reports whether channels may be deleted and listed, and readers
// disconnected.
func (g *Grant) IsAdmin() bool { return g.open || g.own.Admin }

func covers(patterns []stream.Pattern, channel string) bool {
	return slices.ContainsFunc(patterns, func(p stream.Pattern) bool { return p.Match(channel) })
}
