//go:build unix

package server

import (
	"math"
	"net"
	"os"
	"syscall"
)

// descriptors returns how many file descriptors the process has open and how many it may have; ok
// is false if the system does not report it.
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

// descriptorPlaces is how many connections the process may have; 0 if the system does not report it.
func descriptorPlaces() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	most := limit.Cur
	return int(min(most-min(descriptorsSpared, most/4), math.MaxInt32))
}

// takesLast reports whether a connection has one of the last descriptors that the process may have. The
// system gives out the lowest that is free, so the number of the newest says about how many are in use.
func takesLast(nc net.Conn) (last bool) {
	var limit syscall.Rlimit
	raw := rawConn(nc)
	if raw == nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return false
	}
	most := uint64(limit.Cur)
	raw.Control(func(fd uintptr) { last = uint64(fd) >= most-min(descriptorsSpared, most/4) })
	return last
}
