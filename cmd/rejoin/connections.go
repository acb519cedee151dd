package main

// keptFiles are left for all that is no reader: calls, Redis, listeners, and
// those that are refused.
const keptFiles = 200

// mostConnections is as many as there ever need to be.
const mostConnections = 10_000_000

// maxConnections is how many readers are served at a time: as set, else what so
// many file descriptors allow, a twentieth of them kept back; 0 files: not known,
// and no limit.
func maxConnections(set int, files uint64) int {
	switch {
	case set > 0:
		return set
	case files == 0:
		return 0
	}
	kept := max(keptFiles, files/20)
	if files <= 2*kept {
		kept = files / 2
	}
	return int(min(max(files-kept, 1), mostConnections))
}
