package stream

import (
	"encoding/json"
	"unicode/utf8"
)

// TimeFormat is RFC 3339 in UTC with milliseconds: every time the contract shows.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// AppendJSON adds the contract's message object to dst:
// {"channel","id","time","payload","event"?,"key"?}.
func (e *Entry) AppendJSON(dst []byte, channel string) []byte {
	dst = append(dst, '{')
	dst = e.AppendJSONFields(dst, channel)
	return append(dst, '}')
}

// AppendJSONFields adds the message object's fields without its braces.
func (e *Entry) AppendJSONFields(dst []byte, channel string) []byte {
	dst = append(dst, `"channel":`...)
	dst = AppendJSONString(dst, channel)
	dst = append(dst, `,"id":"`...)
	dst = e.ID.Append(dst)
	dst = append(dst, `","time":"`...)
	dst = e.ID.Time().AppendFormat(dst, TimeFormat)
	dst = append(dst, `","payload":`...)
	dst = AppendJSONString(dst, e.Payload)
	if e.Event != "" {
		dst = append(dst, `,"event":`...)
		dst = AppendJSONString(dst, e.Event)
	}
	if e.Key != "" {
		dst = append(dst, `,"key":`...)
		dst = AppendJSONString(dst, e.Key)
	}
	return dst
}

// MarshalJSON writes the contract's gap object.
func (g Gap) MarshalJSON() ([]byte, error) {
	v := struct {
		Channel string  `json:"channel"`
		After   ID      `json:"after"`
		Next    *ID     `json:"next"`
		Missed  *uint64 `json:"missed"`
		Reason  Reason  `json:"reason"`
	}{Channel: g.Channel, After: g.After, Reason: g.Reason}
	if !g.Next.IsZero() {
		v.Next = &g.Next
	}
	if g.Reason == Trimmed {
		v.Missed = &g.Missed
	}
	return json.Marshal(v)
}

// AppendJSONString adds s as a JSON string (RFC 8259). U+2028 and U+2029 are
// escaped, so the text is also a JavaScript literal; invalid UTF-8 becomes
// U+FFFD.
func AppendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\ufffd"...)
				i++
				start = i
				continue
			}
			if r == '\u2028' || r == '\u2029' {
				dst = append(dst, s[start:i]...)
				dst = append(dst, '\\', 'u', '2', '0', '2', hex[r&0xF])
				i += size
				start = i
				continue
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
