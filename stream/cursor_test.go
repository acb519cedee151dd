package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rejoin/stream"
)

func hash36(channel string) string { return strconv.FormatUint(stream.ChannelHash(channel), 36) }

func TestParseCursor(t *testing.T) {
	for _, s := range []string{"0", "0-0", "earliest"} {
		c, err := stream.ParseCursor(s)
		if err != nil || c.Bare() {
			t.Errorf("%q: %v, bare %v", s, err, c.Bare())
		}
		for _, channel := range []string{"a", "b"} {
			if pos, ok := c.Position(channel); !ok || pos != stream.Earliest {
				t.Errorf("%q: channel %s is at %v, %v", s, channel, pos, ok)
			}
		}
	}

	c, err := stream.ParseCursor("1764530000123-42")
	if err != nil || !c.Bare() {
		t.Fatalf("%v, bare %v", err, c.Bare())
	}
	if pos, ok := c.Position("a"); !ok || pos != id(1764530000123, 42) {
		t.Errorf("%v, %v", pos, ok)
	}

	c, err = stream.ParseCursor("1~" + hash36("a") + ".zz.a~" + hash36("b") + ".1.0")
	if err != nil || c.Bare() {
		t.Fatalf("%v, bare %v", err, c.Bare())
	}
	if pos, ok := c.Position("a"); !ok || pos != id(35*36+35, 10) {
		t.Errorf("a: %v, %v", pos, ok)
	}
	if pos, ok := c.Position("b"); !ok || pos != stream.BeforeFirst {
		t.Errorf("b: %v, %v", pos, ok)
	}
	if pos, ok := c.Position("c"); ok {
		t.Errorf("c, of which it does not speak: %v", pos)
	}

	c, err = stream.ParseCursor("1~")
	if err != nil || c.Bare() {
		t.Fatalf("of no channel: %v, bare %v", err, c.Bare())
	}
	if _, ok := c.Position("a"); ok {
		t.Error("the cursor of no channel has a position")
	}
}

// Holds G7.
func TestParseCursorRefuses(t *testing.T) {
	many := "1~"
	for i := range 5000 {
		many += fmt.Sprintf("%s.1.1~", strconv.FormatInt(int64(i), 36))
	}
	for _, s := range []string{
		"", "1", "-", "latest", "Earliest", "00", "01-1", "1-1 ", "$", "*",
		"2~a.1.1", "1~~", "1~a", "1~a.1", "1~a.1.1.1", "1~a.1.1~", "1~a..1", "1~.1.1", "1~a.1.01", "1~A.1.1", "1~a.-1.1",
		"1~a.1.1~a.2.2", "1~" + strconv.FormatUint(1<<48, 36) + ".1.1", "1~a.zzzzzzzzzzzzzz.1", strings.TrimSuffix(many, "~"),
	} {
		if c, err := stream.ParseCursor(s); !errors.Is(err, stream.ErrCursor) {
			t.Errorf("%.40q: %+v, %v, want ErrCursor", s, c, err)
		}
	}
}

// Holds G8.
func TestPositions(t *testing.T) {
	one := stream.NewPositions([]string{"a"})
	if got := one.String(); got != "0-0" {
		t.Errorf("one channel begins at %q", got)
	}
	one.Set("a", id(5, 6))
	one.Set("b", id(7, 8))
	if got := one.String(); got != "5-6" {
		t.Errorf("one channel: %q", got)
	}

	channels := []string{"a", "b", "c", "d", "e", "f", "g"}
	p := stream.NewPositions(channels)
	for i, c := range channels {
		p.Set(c, id(uint64(1000+i), uint64(i)))
	}
	text := p.String()
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789.~") != "" {
		t.Errorf("%q has other characters than [a-z0-9.~]", text)
	}
	list := strings.Split(strings.TrimPrefix(text, "1~"), "~")
	if !slices.IsSorted(list) {
		t.Errorf("%q is not sorted", text)
	}
	c, err := stream.ParseCursor(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range channels {
		if pos, ok := c.Position(name); !ok || pos != id(uint64(1000+i), uint64(i)) {
			t.Errorf("%s comes back as %v, %v", name, pos, ok)
		}
	}
	slices.Reverse(channels)
	if q := stream.NewPositions(channels); q.String() != stream.NewPositions([]string{"a", "b", "c", "d", "e", "f", "g"}).String() {
		t.Errorf("the order of the channels shows: %q", q)
	}
}

// FuzzParseCursor: a text is refused, or says for its channel what it says when
// it is written again.
// Holds G7.
func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{
		"earliest", "0", "0-0", "1-0", "1764530000123-42", "1~", "1~a.1.1", "1~a.1.1~b.2.2", "1~~", "1~a.1",
		"1~" + hash36("a") + ".mjd5z1zf.16~" + hash36("b") + ".1.0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := stream.ParseCursor(s)
		if err != nil {
			if err != stream.ErrCursor {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		channels := []string{"a", "b"}
		p := stream.NewPositions(channels)
		if c.Bare() {
			p = stream.NewPositions(channels[:1])
			channels = channels[:1]
		}
		known := 0
		for _, name := range channels {
			if pos, ok := c.Position(name); ok {
				p.Set(name, pos)
				known++
			}
		}
		again, err := stream.ParseCursor(p.String())
		if err != nil {
			t.Fatalf("%q is written %q: %v", s, p, err)
		}
		for _, name := range channels {
			pos, ok := c.Position(name)
			got, _ := again.Position(name)
			if ok && got != pos {
				t.Fatalf("%q: %s is at %v, written again at %v", s, name, pos, got)
			}
		}
		if known == len(channels) && c.Bare() && p.String() != s {
			t.Fatalf("%q is written %q", s, p)
		}
	})
}
