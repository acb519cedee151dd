package bench

import "time"

// usage is what a process has used.
type usage struct {
	cpu    time.Duration
	rssKB  int64
	peakKB int64 // high-water mark of its life
}
