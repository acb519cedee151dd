package stream_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"rejoin/stream"
)

// Holds G1.
func TestChannelNames(t *testing.T) {
	for _, s := range []string{"a", "news.uk", "A-Z_a-z.0:9~@=+-", "...", "a.", ".a", strings.Repeat("x", stream.MaxChannelName)} {
		if err := stream.CheckChannel(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", ".", "..", "a b", "a/b", "a%20b", "ä", "a\x00", "a\n", "a,b", "{a}", "*", strings.Repeat("x", stream.MaxChannelName+1)} {
		if err := stream.CheckChannel(s); !errors.Is(err, stream.ErrChannelName) {
			t.Errorf("%q: %v, want ErrChannelName", s, err)
		}
	}
}

func TestChannelHash(t *testing.T) {
	// printf news | sha256sum | cut -c1-12
	if got, want := stream.ChannelHash("news"), uint64(0x19fba0e995b9); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}

func TestPattern(t *testing.T) {
	for pattern, names := range map[string]struct{ yes, no string }{
		"news":       {"news", "new newss news. news.uk .news"},
		"*":          {"news a x:y", "a.b a."},
		"**":         {"news a a.b a.b.c . a..b", ""},
		"news.*":     {"news.uk news.", "news news.uk.rain newsx.uk anews.uk"},
		"news.**":    {"news news.uk news.uk.rain news.", "newsx.uk newsx anews.uk"},
		"*.uk":       {"news.uk .uk", "uk news.us news.x.uk news.ukx"},
		"a.*.c":      {"a.b.c a..c", "a.c a.b.d a.b.c.d"},
		"a.*.**":     {"a.b a.b.c a.b.c.d a.", "a ab.c"},
		"user:1.@+=": {"user:1.@+=", "user:1.@+"},
	} {
		p, err := stream.ParsePattern(pattern)
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		if p.String() != pattern {
			t.Errorf("%q is written %q", pattern, p)
		}
		for _, name := range strings.Fields(names.yes) {
			if !p.Match(name) {
				t.Errorf("%s does not match %s", pattern, name)
			}
		}
		for _, name := range strings.Fields(names.no) {
			if p.Match(name) {
				t.Errorf("%s matches %s", pattern, name)
			}
		}
		if n := testing.AllocsPerRun(10, func() { p.Match("news.uk.rain") }); n != 0 {
			t.Errorf("matching %s allocates %v times", pattern, n)
		}
	}
	for _, s := range []string{"", "a b", "**.a", "a.**.b", "a*", "*a", "a.b*", "***", "a/b", "news.{uk}", "ä"} {
		if _, err := stream.ParsePattern(s); !errors.Is(err, stream.ErrPattern) {
			t.Errorf("%q: %v, want ErrPattern", s, err)
		}
	}
}

// FuzzChannel: names agree with the contract's alphabet, and a name is a pattern
// that matches itself; putting stars for its parts still matches it.
// Holds G1.
func FuzzChannel(f *testing.F) {
	for _, s := range []string{"news", "news.uk", "..", "...", "a b", "ä", "", "user:1~@=+-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:~@=+-"
		valid := len(s) >= 1 && len(s) <= 200 && s != "." && s != ".." && strings.Trim(s, alphabet) == ""
		if err := stream.CheckChannel(s); (err == nil) != valid {
			t.Fatalf("%q: %v", s, err)
		}
		if !valid {
			return
		}
		if h := stream.ChannelHash(s); h >= 1<<48 {
			t.Fatalf("%q: the hash %x has more than 48 bits", s, h)
		}
		parts := strings.Split(s, ".")
		patterns := []string{s, "**", parts[0] + ".**", strings.Join(slices.Repeat([]string{"*"}, len(parts)), ".")}
		for i := range parts {
			starred := slices.Clone(parts)
			starred[i] = "*"
			patterns = append(patterns, strings.Join(starred, "."))
		}
		for _, pattern := range patterns {
			p, err := stream.ParsePattern(pattern)
			if err != nil {
				t.Fatalf("%q: %v", pattern, err)
			}
			if !p.Match(s) {
				t.Fatalf("%q does not match %q", pattern, s)
			}
			if p.Match(s+"x.y") && !strings.HasSuffix(pattern, "**") {
				t.Fatalf("%q matches %q", pattern, s+"x.y")
			}
		}
	})
}
