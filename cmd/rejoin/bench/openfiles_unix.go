//go:build unix

package bench

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// wantFiles raises the limit on open files as far as the system lets it and
// fails if that is less than n.
func wantFiles(n int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("the limit on open files: %w", err)
	}
	if uint64(n) <= uint64(limit.Cur) {
		return nil
	}
	raised := limit
	raised.Cur = raised.Max
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
		limit = raised
	}
	if uint64(n) > uint64(limit.Cur) {
		return fmt.Errorf("this run needs %s open files, but a process may have %s here: ask for fewer --subscribers, raise the limit (ulimit -n), or run several generators with --prefix of their own",
			group(int64(n)), group(int64(limit.Cur)))
	}
	return nil
}
