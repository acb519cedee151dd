//go:build !linux

package bench

import (
	"errors"
	"time"
)

func readProcess(int) (usage, error) {
	return usage{}, errors.New("CPU and memory are read from /proc, which needs linux: leave --pid out")
}

func ownCPU() time.Duration { return 0 }

func machineTime() (idle, all time.Duration) { return 0, 0 }
