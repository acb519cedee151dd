package bench

import (
	"bytes"
	"strconv"
)

// A payload is "rb:<run>.<channel>.<sequence>.<nanoseconds> " and padding up to
// the size asked for. The run is a random word, so that what an earlier run left
// in the log is told apart; the time is the send's, on the run's own monotonic
// clock.

// MinSize is the smallest payload that holds a stamp.
const MinSize = 64

// MaxSize is the largest payload a server takes by default (1 MiB).
const MaxSize = 1 << 20

const stampMark = "rb:"

type stamp struct {
	channel int
	seq     int64 // 1, 2, 3 … in its channel
	at      int64 // ns on the run's clock
}

// appendPayload adds a payload of exactly size bytes to dst.
func appendPayload(dst []byte, run string, s stamp, size int) []byte {
	start := len(dst)
	dst = append(dst, stampMark...)
	dst = append(dst, run...)
	dst = append(dst, '.')
	dst = strconv.AppendInt(dst, int64(s.channel), 10)
	dst = append(dst, '.')
	dst = strconv.AppendInt(dst, s.seq, 10)
	dst = append(dst, '.')
	dst = strconv.AppendInt(dst, s.at, 10)
	dst = append(dst, ' ')
	for len(dst)-start < size {
		rest := size - (len(dst) - start)
		dst = append(dst, padding[:min(rest, len(padding))]...)
	}
	return dst
}

const padding = "the quick brown fox jumps over the lazy dog, 0123456789 times. "

// parseStamp reads the stamp at the head of a payload. ok is false for what is
// not a payload of this run.
func parseStamp(p []byte, run string) (s stamp, ok bool) {
	p, ok = bytes.CutPrefix(p, []byte(stampMark))
	if !ok || len(p) < len(run) || string(p[:len(run)]) != run {
		return s, false
	}
	p = p[len(run):]
	var v [3]int64
	for i := range v {
		if len(p) == 0 || p[0] != '.' {
			return s, false
		}
		p = p[1:]
		n := 0
		for n < len(p) && n < 19 && '0' <= p[n] && p[n] <= '9' {
			v[i] = v[i]*10 + int64(p[n]-'0')
			n++
		}
		if n == 0 {
			return s, false
		}
		p = p[n:]
	}
	if len(p) == 0 || p[0] != ' ' {
		return s, false
	}
	return stamp{channel: int(v[0]), seq: v[1], at: v[2]}, true
}
