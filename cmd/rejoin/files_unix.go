//go:build unix

package main

import "syscall"

// raiseFiles raises how many file descriptors this process may have to the most
// it may raise that to, and says how many that is; 0: not known.
func raiseFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	raised := limit
	raised.Cur = raised.Max
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
		limit = raised
	}
	return uint64(limit.Cur)
}
