package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errInputClosed is the error of a read of data from a standard input that is closed.
var errInputClosed = errors.New("standard input is closed")

// checkInput refuses to read data from a standard input that is closed. Go opens /dev/null in its place, for reading and writing, and
// the data would be empty without a word. A shell opens /dev/null for reading alone.
func checkInput() error {
	var in, null unix.Stat_t
	flags, err := unix.FcntlInt(0, unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR || unix.Fstat(0, &in) != nil || unix.Stat("/dev/null", &null) != nil {
		return nil
	}
	if in.Mode&unix.S_IFMT == unix.S_IFCHR && in.Rdev == null.Rdev {
		return errInputClosed
	}
	return nil
}
