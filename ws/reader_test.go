package ws

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readAll is what a reader makes of bytes that come in the pieces given: each
// message on a line, and how it ended.
func readAll(pieces ...[]byte) (out string, r *Reader) {
	r = &Reader{}
	var s strings.Builder
	for _, b := range pieces {
		b = bytes.Clone(b) // the bytes are the reader's only for the call
		for m, err := range r.Messages(b) {
			if err != nil {
				fmt.Fprintf(&s, "%d %v\n", r.failed.Code, err)
				return s.String(), r
			}
			fmt.Fprintf(&s, "%x %q\n", byte(m.Op), m.Payload)
		}
		for i := range b {
			b[i] = 'x'
		}
	}
	return s.String(), r
}

func join(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

// unmasked is what only a server may send.
func unmasked(first byte, payload string) []byte {
	return append([]byte{first, byte(len(payload))}, payload...)
}

// inputs are what a client may send, good and bad.
var inputs = map[string]struct {
	in   []byte
	want string
}{
	"text":         {masked(final|opText, "hi"), "1 \"hi\"\n"},
	"empty text":   {masked(final|opText, ""), "1 \"\"\n"},
	"binary":       {masked(final|opBinary, "\x00\xff"), "2 \"\\x00\\xff\"\n"},
	"two":          {join(masked(final|opText, "a"), masked(final|opText, "b")), "1 \"a\"\n1 \"b\"\n"},
	"126 bytes":    {masked(final|opText, strings.Repeat("a", 126)), "1 \"" + strings.Repeat("a", 126) + "\"\n"},
	"64 KiB":       {masked(final|opText, strings.Repeat("a", 64<<10)), "1 \"" + strings.Repeat("a", 64<<10) + "\"\n"},
	"length in 8":  {append([]byte{final | opText, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, 'a'), "1 \"a\"\n"},
	"fragments":    {join(masked(opText, "a"), masked(opContinue, "b"), masked(opContinue, ""), masked(final|opContinue, "c")), "1 \"abc\"\n"},
	"cut in é":     {join(masked(opText, "\xc3"), masked(final|opContinue, "\xa9")), "1 \"é\"\n"},
	"ping between": {join(masked(opText, "a"), masked(final|opPing, "p"), masked(final|opContinue, "b")), "9 \"p\"\n1 \"ab\"\n"},
	"ping, pong":   {join(masked(final|opPing, ""), masked(final|opPong, strings.Repeat("x", 125))), "9 \"\"\na \"" + strings.Repeat("x", 125) + "\"\n"},
	"close":        {masked(final|opClose, closing(1000, "bye")), "8 \"\\x03\\xe8bye\"\n"},
	"close empty":  {masked(final|opClose, ""), "8 \"\"\n"},
	"close 3000":   {masked(final|opClose, closing(3000, "")), "8 \"\\v\\xb8\"\n"},
	"close 4999":   {masked(final|opClose, closing(4999, "")), "8 \"\\x13\\x87\"\n"},
	"unfinished":   {masked(final|opText, "hello")[:9], ""},

	"unmasked":             {unmasked(final|opText, "hi"), "1002 frames from client to server must be masked\n"},
	"unmasked behind":      {join(masked(final|opText, "a"), unmasked(final|opText, "b")), "1 \"a\"\n1002 frames from client to server must be masked\n"},
	"reserved bit 1":       {masked(final|0x40|opText, "hi"), "1002 non-zero rsv bits with no extension negotiated\n"},
	"reserved bit 2":       {masked(final|0x20|opText, "hi"), "1002 non-zero rsv bits with no extension negotiated\n"},
	"reserved bit 3":       {masked(final|0x10|opPing, ""), "1002 non-zero rsv bits with no extension negotiated\n"},
	"reserved opcode 3":    {masked(final|0x3, ""), "1002 use of reserved op code\n"},
	"reserved opcode 7":    {masked(final|0x7, ""), "1002 use of reserved op code\n"},
	"reserved opcode b":    {masked(final|0xB, ""), "1002 use of reserved op code\n"},
	"reserved opcode f":    {masked(final|0xF, ""), "1002 use of reserved op code\n"},
	"ping in fragments":    {masked(opPing, ""), "1002 control frame is not final\n"},
	"ping of 126":          {masked(final|opPing, strings.Repeat("a", 126)), "1002 control frame payload limit exceeded\n"},
	"stray continuation":   {masked(final|opContinue, "a"), "1002 unexpected continuation data frame\n"},
	"text among fragments": {join(masked(opText, "a"), masked(final|opText, "b")), "1002 unexpected non-continuation data frame\n"},
	"highest length bit":   {[]byte{final | opText, 0x80 | 127, 0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, "1002 the highest bit of a length is not 0\n"},
	"one byte too many":    {masked(final|opText, strings.Repeat("a", 64<<10+1)), "1009 a message may have 64 KiB\n"},
	"too many in sum":      {join(masked(opText, strings.Repeat("a", 64<<10)), masked(opContinue, "a")), "1009 a message may have 64 KiB\n"},
	"2^62 bytes":           {[]byte{final | opBinary, 0x80 | 127, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "1009 a message may have 64 KiB\n"},
	"not UTF-8":            {masked(final|opText, "a\xffb"), "1007 a text message is not UTF-8\n"},
	"half a character":     {join(masked(opText, "a"), masked(final|opContinue, "\xe2\x82")), "1007 a text message is not UTF-8\n"},
	"a surrogate":          {masked(final|opText, "\xed\xa0\x80"), "1007 a text message is not UTF-8\n"},
	"close of 1 byte":      {masked(final|opClose, "\x03"), "1002 a close frame has half a code\n"},
	"close not UTF-8":      {masked(final|opClose, closing(1000, "\xff")), "1007 the reason of a close frame is not UTF-8\n"},
	"close 0":              {masked(final|opClose, closing(0, "")), badCode},
	"close 999":            {masked(final|opClose, closing(999, "")), badCode},
	"close 1004":           {masked(final|opClose, closing(1004, "")), badCode},
	"close 1005":           {masked(final|opClose, closing(1005, "")), badCode},
	"close 1006":           {masked(final|opClose, closing(1006, "")), badCode},
	"close 1015":           {masked(final|opClose, closing(1015, "")), badCode},
	"close 1016":           {masked(final|opClose, closing(1016, "")), badCode},
	"close 2999":           {masked(final|opClose, closing(2999, "")), badCode},
	"close 5000":           {masked(final|opClose, closing(5000, "")), badCode},
}

const badCode = "1002 a close frame has a code that is not for use\n"

func TestReader(t *testing.T) {
	for name, c := range inputs {
		t.Run(name, func(t *testing.T) {
			got, r := readAll(c.in)
			require.Equal(t, c.want, got)
			bytewise := make([][]byte, len(c.in))
			for i := range c.in {
				bytewise[i] = c.in[i : i+1]
			}
			got, _ = readAll(bytewise...)
			require.Equal(t, c.want, got, "byte by byte")
			if r.failed != nil {
				for _, err := range r.Messages(masked(final|opText, "more")) {
					require.Equal(t, r.failed, err, "nothing is read behind a violation")
				}
			} else if c.want != "" {
				require.Nil(t, r.text, "nothing is kept between messages")
				require.Nil(t, r.frame)
			}
		})
	}
}

// A header that promises much reserves nothing: only what has come is held.
func TestReaderHoldsWhatCame(t *testing.T) {
	_, r := readAll(masked(final|opText, strings.Repeat("a", 64<<10))[:24])
	require.LessOrEqual(t, cap(r.text), 64)
}

// FuzzReader: what is read does not depend on how the bytes are cut, and is
// bounded.
func FuzzReader(f *testing.F) {
	for _, c := range inputs {
		f.Add(c.in, []byte{1, 2, 7})
	}
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		want, _ := readAll(in)
		var pieces [][]byte
		rest := in
		for i := 0; len(rest) > 0; i++ {
			k := 1
			if len(cuts) > 0 {
				k = int(cuts[i%len(cuts)])
			}
			k = min(max(k, 1), len(rest))
			pieces = append(pieces, rest[:k])
			rest = rest[k:]
		}
		got, r := readAll(pieces...)
		if got != want {
			t.Fatalf("cut: %q\nwhole: %q", got, want)
		}
		if len(r.text) > MaxMessage || len(r.frame) > 125 {
			t.Fatalf("holds %d and %d bytes", len(r.text), len(r.frame))
		}
	})
}
