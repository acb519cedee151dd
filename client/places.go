package client

import (
	"slices"
	"strconv"
	"strings"

	"rejoin/stream"
)

// places is a subscription's position in each of its channels, of which the
// transports without a whole cursor on each message make it.
type places struct {
	names  []string // sorted as a cursor has them
	hashes []string
	ids    []stream.ID
	known  []bool
}

// newPlaces begins with what a cursor says, nil for none.
func newPlaces(channels []string, cursor *stream.Cursor) places {
	hash := func(name string) string { return strconv.FormatUint(stream.ChannelHash(name), 36) }
	p := places{
		names: slices.SortedFunc(slices.Values(channels), func(a, b string) int { return strings.Compare(hash(a), hash(b)) }),
		ids:   make([]stream.ID, len(channels)),
		known: make([]bool, len(channels)),
	}
	for _, name := range p.names {
		p.hashes = append(p.hashes, hash(name))
	}
	if cursor != nil {
		p.jump(*cursor)
	}
	return p
}

// jump moves all channels that the cursor speaks of.
func (p *places) jump(c stream.Cursor) {
	for i, name := range p.names {
		if id, ok := c.Position(name); ok {
			p.ids[i], p.known[i] = id, true
		}
	}
}

// move moves one channel. One that is none of these is left out.
func (p *places) move(channel string, id stream.ID) {
	if i := slices.Index(p.names, channel); i >= 0 {
		p.ids[i], p.known[i] = id, true
	}
}

// of is a channel's position, if it is known.
func (p *places) of(channel string) (stream.ID, bool) {
	if i := slices.Index(p.names, channel); i >= 0 {
		return p.ids[i], p.known[i]
	}
	return stream.ID{}, false
}

// cursor is the cursor's text: an id, or the compact form of several channels
// without those of which nothing is known; "" if that is all.
func (p *places) cursor() string {
	if !slices.Contains(p.known, true) {
		return ""
	}
	if len(p.names) == 1 {
		return p.ids[0].String()
	}
	b := []byte("1~")
	for i, id := range p.ids {
		if !p.known[i] {
			continue
		}
		if len(b) > 2 {
			b = append(b, '~')
		}
		b = append(b, p.hashes[i]...)
		b = append(b, '.')
		b = strconv.AppendUint(b, id.MS, 36)
		b = append(b, '.')
		b = strconv.AppendUint(b, id.N, 36)
	}
	return string(b)
}
