//go:build !linux

package redistest

import "syscall"

func endWithUs() *syscall.SysProcAttr { return nil }
