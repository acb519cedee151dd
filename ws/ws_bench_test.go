package ws

import (
	"strings"
	"testing"

	"rejoin/delivery"
	"rejoin/stream"
)

// BenchmarkFrames is a pump's gathering of ten messages for one connection; the
// frames are shared.
func BenchmarkFrames(b *testing.B) {
	var items []delivery.Item
	for range 10 {
		items = append(items, *message("news.uk", stream.Entry{ID: at, Payload: strings.Repeat("x", 500)}))
	}
	f := framer{encoder: NewEncoder(0, nil)}
	b.ReportAllocs()
	for b.Loop() {
		var p delivery.Pieces
		f.Frames(&p, items)
	}
}
