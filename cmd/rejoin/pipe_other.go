//go:build !windows

package main

import "syscall"

// errBrokenPipe is what a write to a pipe that nobody reads fails with.
const errBrokenPipe = syscall.EPIPE
