package longpoll

import (
	"unicode/utf16"
	"unicode/utf8"
)

// maxCallback is the longest name of a callback.
const maxCallback = 64

// isCallback reports whether name is [A-Za-z_$][\w$.]{0,63}: it cannot hold
// anything that is called with more than the answer.
func isCallback(name string) bool {
	if name == "" || len(name) > maxCallback {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c == '_', c == '$':
		case i > 0 && (c >= '0' && c <= '9' || c == '.'):
		default:
			return false
		}
	}
	return true
}

// appendCall adds the start of a call. The comment keeps the first bytes from
// being the client's choice: some file formats begin with letters alone.
func appendCall(dst []byte, callback string) []byte {
	dst = append(dst, "/**/"...)
	dst = append(dst, callback...)
	return append(dst, '(')
}

// appendASCII adds JSON with everything outside ASCII escaped. A script is read
// in the encoding of its page, which the server does not know; and U+2028 and
// U+2029 end a line of script.
func appendASCII(dst, json []byte) []byte {
	for i := 0; i < len(json); {
		if json[i] < utf8.RuneSelf {
			dst = append(dst, json[i])
			i++
			continue
		}
		r, size := utf8.DecodeRune(json[i:])
		i += size
		if r1, r2 := utf16.EncodeRune(r); r1 != utf8.RuneError {
			dst = appendEscape(appendEscape(dst, r1), r2)
		} else {
			dst = appendEscape(dst, r)
		}
	}
	return dst
}

func appendEscape(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&0xF], hex[r>>8&0xF], hex[r>>4&0xF], hex[r&0xF])
}
