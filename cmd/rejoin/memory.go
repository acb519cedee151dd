package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

const (
	// tidyEvery is how often unused memory is looked for.
	tidyEvery = 10 * time.Second
	// tidyLeast is how much must be there for it to be given back.
	tidyLeast = 4 << 20
	// memoryShare of a container's limit is the runtime's own.
	memoryShare = 0.9
)

// limitMemory sets the runtime's soft limit to the memory of the container this
// runs in, unless GOMEMLIMIT is set: the runtime does not look by itself.
func limitMemory(logger zerolog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := containerMemory(); limit > 0 {
		debug.SetMemoryLimit(int64(float64(limit) * memoryShare))
		logger.Info().Int64("bytes", limit).Msg("memory of this container")
	}
}

// tidy gives memory back to the system that handshakes and storms have left
// behind, until ctx ends. The runtime would do so over minutes.
func tidy(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if live, unused := heap(); unused > max(tidyLeast, live/4) {
			debug.FreeOSMemory()
		}
	}
}

// heap is what was live at the last collection, and what could be given back:
// free memory still held, and what has become garbage since, at the most.
func heap() (live, unused uint64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	live = s[0].Value.Uint64()
	unused = s[2].Value.Uint64() + s[3].Value.Uint64()
	if objects := s[1].Value.Uint64(); objects > live {
		unused += objects - live
	}
	return live, unused
}

// containerMemory is the limit of the memory cgroup in bytes, of version 2 or 1;
// 0: none.
func containerMemory() int64 {
	for _, path := range cgroupFiles("/proc/self/cgroup") {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && n < 1<<50 {
			return n
		}
	}
	return 0
}

// cgroupFiles are the files that may hold the limit, the nearest first: inside a
// container the group is mounted as the root.
func cgroupFiles(list string) (paths []string) {
	b, err := os.ReadFile(list)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) < 3:
		case f[0] == "0":
			paths = append(paths, "/sys/fs/cgroup"+f[2]+"/memory.max")
		case strings.Contains(","+f[1]+",", ",memory,"):
			paths = append(paths, "/sys/fs/cgroup/memory"+f[2]+"/memory.limit_in_bytes")
		}
	}
	return append(paths, "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
}
