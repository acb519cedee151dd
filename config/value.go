package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Size is a number of bytes, written 65536, 64KiB (1024s) or 64KB (1000s).
type Size int64

// Units of [Size].
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// units are tried in this order when a size is written out.
var units = []struct {
	name  string
	bytes Size
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}

// ParseSize reads a size; case and a space before the unit do not matter.
func ParseSize(text string) (Size, error) {
	bad := fmt.Errorf("%q is not a size: write plain bytes, or such as 64KiB or 1MB", text)
	digits := text
	for i, c := range text {
		if c < '0' || c > '9' {
			digits = text[:i]
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, bad
	}
	unit := strings.TrimSpace(text[len(digits):])
	if unit == "" {
		unit = "B"
	}
	for _, u := range units {
		if strings.EqualFold(unit, u.name) {
			if n > math.MaxInt64/int64(u.bytes) {
				return 0, bad
			}
			return Size(n) * u.bytes, nil
		}
	}
	return 0, bad
}

// String writes the size in the largest unit that keeps it whole.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return "0B"
}

// parse makes a value of the setting's type from a text. Its errors hold the
// text, so a secret must be a string, which never fails here.
func parse(t reflect.Type, text string) (any, error) {
	switch reflect.Zero(t).Interface().(type) {
	case string:
		return text, nil
	case bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return v, nil
	case int:
		v, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return v, nil
	case time.Duration:
		v, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a duration: write such as 500ms, 2s, 5m or 24h", text)
		}
		return v, nil
	case Size:
		return ParseSize(text)
	case []string:
		var list []string
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
		return list, nil
	}
	return nil, errors.New("cannot be given as a text")
}

// format is the text of a value; [parse] reads it back.
func format(v any) string {
	switch v := v.(type) {
	case time.Duration:
		s := v.String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		return s
	case []string:
		return strings.Join(v, ",")
	case []Channel, []Key:
		return ""
	}
	return fmt.Sprint(v)
}

// oneLine makes a text fit for a line of a terminal: line breaks and runs of
// spaces are folded, what does not print is gone, and it ends after 500 bytes.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "..."
	}
	return s
}
