package main

import "syscall"

// errBrokenPipe is what a write to a pipe that nobody reads fails with
// (ERROR_NO_DATA).
const errBrokenPipe = syscall.Errno(232)
