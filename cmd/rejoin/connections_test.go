package main

import "testing"

func TestMaxConnections(t *testing.T) {
	for _, tt := range []struct {
		set   int
		files uint64
		want  int
	}{
		{0, 0, 0}, {5, 0, 5}, {5, 1024, 5}, {5000, 1024, 5000},
		{0, 1024, 824}, {0, 256, 128}, {0, 1, 1}, {0, 1 << 20, 1<<20 - 1<<20/20}, {0, 1<<63 - 1, mostConnections},
	} {
		if got := maxConnections(tt.set, tt.files); got != tt.want {
			t.Errorf("set %d, %d files: %d, want %d", tt.set, tt.files, got, tt.want)
		}
	}
}
