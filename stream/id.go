package stream

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ID names one entry of a channel: "<ms>-<n>".
//
// MS is the log's clock in Unix milliseconds at the append and never goes back
// inside a channel. N is the channel's counter: 1, 2, 3 … without a hole inside
// one life of the log. The text form is a Redis stream id and sorts as one.
type ID struct {
	MS uint64
	N  uint64
}

var (
	// Earliest is the position before everything retained, whatever that is:
	// the first entry read from it is not checked against the rule.
	Earliest = ID{}
	// BeforeFirst is the position of a reader of a channel that never had a
	// message. It is checked: only an entry with N = 1 goes on from it.
	BeforeFirst = ID{MS: 1}
	// MaxID is above every id; reading before it starts at the newest.
	MaxID = ID{MS: 1<<64 - 1, N: 1<<64 - 1}
)

// ErrID says that a text is not an id.
var ErrID = errors.New("stream: not an id: want <ms>-<n> in decimal without leading zeros")

// ParseID reads the text form. It accepts exactly what [ID.String] writes.
func ParseID(s string) (ID, error) {
	ms, n, ok := strings.Cut(s, "-")
	if !ok {
		return ID{}, ErrID
	}
	var id ID
	if id.MS, ok = parseUint(ms, 10); !ok {
		return ID{}, ErrID
	}
	if id.N, ok = parseUint(n, 10); !ok {
		return ID{}, ErrID
	}
	return id, nil
}

// parseUint reads what strconv.FormatUint writes in that base, and nothing else.
func parseUint(s string, base int) (uint64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || s[0] == '+' {
		return 0, false
	}
	v, err := strconv.ParseUint(s, base, 64)
	return v, err == nil && strings.ToLower(s) == s
}

// String is the text form, "<ms>-<n>".
func (id ID) String() string { return string(id.Append(nil)) }

// Append adds the text form to dst.
func (id ID) Append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, id.MS, 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, id.N, 10)
}

// MarshalText implements [encoding.TextMarshaler].
func (id ID) MarshalText() ([]byte, error) { return id.Append(nil), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// Compare orders ids as Redis does: by MS, then by N.
func (id ID) Compare(o ID) int {
	switch {
	case id.MS < o.MS:
		return -1
	case id.MS > o.MS:
		return 1
	case id.N < o.N:
		return -1
	case id.N > o.N:
		return 1
	}
	return 0
}

// Less reports whether id sorts before o.
func (id ID) Less(o ID) bool { return id.Compare(o) < 0 }

// IsZero reports whether id is 0-0, [Earliest].
func (id ID) IsZero() bool { return id == ID{} }

// Time is the publish time in UTC, with milliseconds.
func (id ID) Time() time.Time { return time.UnixMilli(int64(id.MS)).UTC() }

// AtTime is the lowest id of that moment: every entry appended before t (by the
// log's clock) sorts below it.
func AtTime(t time.Time) ID {
	ms := t.UnixMilli()
	if ms < 0 {
		ms = 0
	}
	return ID{MS: uint64(ms)}
}
