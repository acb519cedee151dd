package sse

import (
	"strings"
	"testing"

	"rejoin/delivery"
	"rejoin/stream"
)

// BenchmarkEncode is a message's frame of 500 bytes, made once for all its
// readers.
func BenchmarkEncode(b *testing.B) {
	it := message("news.uk", stream.Entry{ID: at, Payload: strings.Repeat("x", 500)})
	for name, encode := range map[string]func(*delivery.Record) []byte{"raw": encodeRawChunk, "json": encodeJSONChunk} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode(it.Record)
			}
		})
	}
}
