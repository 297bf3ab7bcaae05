//go:build unix

package server

import (
	"math"
	"os"
	"syscall"
)

// descriptors returns how many file descriptors the process has open and how many it may have; ok
// is false if the system does not tell.
func descriptors() (open, most int, ok bool) {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0, 0, false
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, 0, false
	}
	return len(names) - 1, int(min(uint64(limit.Cur), math.MaxInt)), true // without that of the directory
}
