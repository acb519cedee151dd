package redistest

import "syscall"

// endWithUs makes the kernel end the child when the test process dies.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
