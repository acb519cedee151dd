package memlog

import (
	"strings"
	"testing"

	"rejoin/stream"
)

// BenchmarkAppend is an append of 500 bytes to a channel that is full, so that
// each also trims.
func BenchmarkAppend(b *testing.B) {
	l := New(Options{})
	defer l.Close()
	m := stream.Message{Channel: "a", Payload: strings.Repeat("x", 500)}
	appendOne := func() stream.ID {
		a, err := l.Append(b.Context(), m)
		if err != nil {
			b.Fatal(err)
		}
		return a.ID
	}
	for range stream.DefaultRetention.MaxMessages {
		appendOne()
	}
	b.ReportAllocs()
	for b.Loop() {
		appendOne()
	}
}

// BenchmarkRead is the page behind a cursor: of nothing, one and a hundred
// messages.
func BenchmarkRead(b *testing.B) {
	l := New(Options{})
	defer l.Close()
	var ids []stream.ID
	for range 200 {
		a, err := l.Append(b.Context(), stream.Message{Channel: "a", Payload: strings.Repeat("x", 500)})
		if err != nil {
			b.Fatal(err)
		}
		ids = append(ids, a.ID)
	}
	for name, behind := range map[string]int{"none": 0, "one": 1, "hundred": 100} {
		b.Run(name, func(b *testing.B) {
			q := stream.Query{Channel: "a", After: ids[len(ids)-1-behind], Limit: 100}
			b.ReportAllocs()
			for b.Loop() {
				p, err := l.Read(b.Context(), q)
				if err != nil || len(p.Entries) != behind {
					b.Fatalf("%d entries, %v", len(p.Entries), err)
				}
			}
		})
	}
}
