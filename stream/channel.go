package stream

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// MaxChannelName is the longest channel name in characters (they are ASCII).
const MaxChannelName = 200

// ErrChannelName says that a text is not a channel name.
var ErrChannelName = errors.New("stream: not a channel name: want 1-200 characters of A-Z a-z 0-9 _ . : ~ @ = + -, but not . or ..")

// CheckChannel reports whether name is a channel's name; the error wraps
// [ErrChannelName].
func CheckChannel(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > MaxChannelName {
		return ErrChannelName
	}
	for i := 0; i < len(name); i++ {
		if !nameByte(name[i]) {
			return fmt.Errorf("%w (character %d is %q)", ErrChannelName, i+1, name[i:i+1])
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("_.:~@=+-", c) >= 0
}

// ChannelHash is the first 48 bits of the SHA-256 of a channel's name: its name
// inside a cursor of several channels, and what engines spread channels by.
func ChannelHash(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:8]) >> 16
}

// Pattern matches channel names part by part between dots: "*" is one part,
// "**" is the rest, zero parts or more, and stands last; anything else is
// itself. "news.*" matches "news.uk", neither "news" nor "news.uk.rain" nor
// "newsx.uk"; "news.**" matches the first three but not the last.
type Pattern struct {
	text  string
	parts []string
	rest  bool
}

// ErrPattern says that a text is not a pattern.
var ErrPattern = errors.New("stream: not a channel pattern")

// ParsePattern reads a pattern; the error wraps [ErrPattern].
func ParsePattern(s string) (Pattern, error) {
	p := Pattern{text: s}
	if s == "" {
		return p, fmt.Errorf("%w: it is empty", ErrPattern)
	}
	parts := strings.Split(s, ".")
	for i, part := range parts {
		if part == "**" {
			if i != len(parts)-1 {
				return p, fmt.Errorf("%w: %q: ** stands last", ErrPattern, s)
			}
			p.rest = true
			parts = parts[:i]
			break
		}
		if part == "*" {
			continue
		}
		for j := 0; j < len(part); j++ {
			if !nameByte(part[j]) {
				return p, fmt.Errorf("%w: %q: %q is not a part of a name (* is a whole part)", ErrPattern, s, part)
			}
		}
	}
	p.parts = parts
	return p, nil
}

// String is the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Match reports whether the pattern covers the channel name. It does not allocate.
func (p Pattern) Match(name string) bool {
	for i, part := range p.parts {
		if i > 0 {
			if name == "" || name[0] != '.' {
				return false
			}
			name = name[1:]
		}
		end := strings.IndexByte(name, '.')
		if end < 0 {
			end = len(name)
		}
		if part != "*" && part != name[:end] {
			return false
		}
		name = name[end:]
	}
	if p.rest {
		return len(p.parts) == 0 || name == "" || name[0] == '.'
	}
	return name == ""
}
