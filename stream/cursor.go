package stream

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Cursor is where a reader is, as it says so itself: one id, or one for each of
// several channels, or "earliest". It proves nothing; [Resume] judges it.
type Cursor struct {
	id   ID
	many map[uint64]ID // by ChannelHash; nil for one id
}

// ErrCursor says that a text is not a cursor.
var ErrCursor = errors.New("stream: not a cursor: want an id <ms>-<n>, earliest, or 1~<hash>.<ms>.<n>~… as a server sent it")

// manyPrefix begins the compact form; its digit is the form's version.
const manyPrefix = "1~"

// maxCursorChannels bounds what a parse may allocate.
const maxCursorChannels = 4096

// ParseCursor reads a cursor: "<ms>-<n>"; "earliest", "0" or "0-0"; or the
// compact form of several channels, "1~" and one "<hash>.<ms>.<n>" in base36
// for each, joined by "~". The error is [ErrCursor].
func ParseCursor(s string) (Cursor, error) {
	if s == "earliest" || s == "0" {
		return Cursor{}, nil
	}
	list, ok := strings.CutPrefix(s, manyPrefix)
	if !ok {
		id, err := ParseID(s)
		if err != nil {
			return Cursor{}, ErrCursor
		}
		return Cursor{id: id}, nil
	}
	c := Cursor{many: map[uint64]ID{}}
	if list == "" {
		return c, nil
	}
	for part := range strings.SplitSeq(list, "~") {
		hash, rest, ok1 := strings.Cut(part, ".")
		ms, n, ok2 := strings.Cut(rest, ".")
		h, ok3 := parseUint(hash, 36)
		var id ID
		var ok4, ok5 bool
		id.MS, ok4 = parseUint(ms, 36)
		id.N, ok5 = parseUint(n, 36)
		_, twice := c.many[h]
		if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || h >= 1<<48 || twice || len(c.many) == maxCursorChannels {
			return Cursor{}, ErrCursor
		}
		c.many[h] = id
	}
	return c, nil
}

// Bare reports whether the cursor is a single channel's id, which says nothing
// about several channels. [Earliest] is not: it applies to each.
func (c Cursor) Bare() bool { return c.many == nil && c.id != Earliest }

// Position is the channel's place in the cursor; ok is false when the cursor
// does not speak of it.
func (c Cursor) Position(channel string) (pos ID, ok bool) {
	if c.many == nil {
		return c.id, true
	}
	pos, ok = c.many[ChannelHash(channel)]
	return pos, ok
}

// Positions is the cursor of a connection, kept up to date as its messages are
// sent. With one channel its text is the bare id, else the compact form. It is
// not safe for concurrent use.
type Positions struct {
	channels []string // sorted by hash text
	hashes   []string
	ids      []ID
}

// NewPositions begins with every channel at [Earliest].
func NewPositions(channels []string) *Positions {
	p := &Positions{
		channels: slices.Clone(channels),
		hashes:   make([]string, len(channels)),
		ids:      make([]ID, len(channels)),
	}
	slices.SortFunc(p.channels, func(a, b string) int { return strings.Compare(hashText(a), hashText(b)) })
	for i, c := range p.channels {
		p.hashes[i] = hashText(c)
	}
	return p
}

func hashText(channel string) string { return strconv.FormatUint(ChannelHash(channel), 36) }

// Set moves one channel. A channel the positions were not made with is ignored.
func (p *Positions) Set(channel string, id ID) {
	if i := slices.Index(p.channels, channel); i >= 0 {
		p.ids[i] = id
	}
}

// Append adds the cursor's text to dst.
func (p *Positions) Append(dst []byte) []byte {
	if len(p.ids) == 1 {
		return p.ids[0].Append(dst)
	}
	dst = append(dst, manyPrefix...)
	for i, id := range p.ids {
		if i > 0 {
			dst = append(dst, '~')
		}
		dst = append(dst, p.hashes[i]...)
		dst = append(dst, '.')
		dst = strconv.AppendUint(dst, id.MS, 36)
		dst = append(dst, '.')
		dst = strconv.AppendUint(dst, id.N, 36)
	}
	return dst
}

// String is the cursor's text.
func (p *Positions) String() string { return string(p.Append(nil)) }
