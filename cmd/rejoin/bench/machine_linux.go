package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// userHZ is the unit of CPU times in /proc: 1/100 s on every Linux, whatever
// the kernel's own clock.
const userHZ = 100

// readProcess reads the CPU time and memory of a process (proc(5)).
func readProcess(pid int) (u usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("/proc/%d/stat has %d fields behind the name", pid, len(fields))
	}
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		u.cpu += time.Duration(n) * time.Second / userHZ
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		switch name {
		case "VmRSS":
			u.rssKB, err = strconv.ParseInt(kb, 10, 64)
		case "VmHWM":
			u.peakKB, err = strconv.ParseInt(kb, 10, 64)
		}
		if err != nil {
			return u, fmt.Errorf("/proc/%d/status: %w", pid, err)
		}
	}
	return u, nil
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// machineTime is the time all cores together spent idle, and in all.
func machineTime() (idle, all time.Duration) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || i > 8 { // guest times are inside user's
			continue
		}
		d := time.Duration(n) * time.Second / userHZ
		all += d
		if i == 4 || i == 5 { // idle, iowait
			idle += d
		}
	}
	return idle, all
}
