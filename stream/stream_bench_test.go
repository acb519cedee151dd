package stream

import (
	"strings"
	"testing"
)

// BenchmarkResume is the rule on a cursor that goes on, and on one that was
// overtaken by retention.
func BenchmarkResume(b *testing.B) {
	next := Entry{ID: ID{2000, 43}, Prev: 1000, Life: 10}
	page := Page{Channel: "a", Entries: []Entry{next}, Last: next.ID, Life: 10, Placed: true}
	for name, c := range map[string]ID{"goes on": {1000, 42}, "trimmed": {500, 7}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Resume(c, page)
			}
		})
	}
}

// BenchmarkAppendJSON is the message object of 500 bytes.
func BenchmarkAppendJSON(b *testing.B) {
	e := Entry{ID: ID{1764530000123, 42}, Payload: strings.Repeat("x", 500)}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendJSON(buf[:0], "news.uk")
	}
}

// BenchmarkCursor is a cursor of 20 channels, read and written.
func BenchmarkCursor(b *testing.B) {
	var names []string
	for i := range 20 {
		names = append(names, strings.Repeat("c", i+1))
	}
	p := NewPositions(names)
	for i, name := range names {
		p.Set(name, ID{1764530000123, uint64(i + 1)})
	}
	text := p.String()
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseCursor(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		buf := make([]byte, 0, 2*len(text))
		b.ReportAllocs()
		for b.Loop() {
			p.Set(names[7], ID{1764530000123, 42})
			buf = p.Append(buf[:0])
		}
	})
}
