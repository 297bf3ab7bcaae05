package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// standardInput returns standard input for data, or a reader that fails if it is closed. Go opens /dev/null in the place of a
// closed one, for reading and writing, and the data would be empty without a word. A shell opens /dev/null for
// reading alone, and some programs as Go does.
func standardInput() io.Reader {
	var in, null unix.Stat_t
	flags, err := unix.FcntlInt(0, unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR || unix.Fstat(0, &in) != nil || unix.Stat("/dev/null", &null) != nil {
		return os.Stdin
	}
	if in.Mode&unix.S_IFMT == unix.S_IFCHR && in.Rdev == null.Rdev {
		return closedInput{}
	}
	return os.Stdin
}

type closedInput struct{}

func (closedInput) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: os.Stdin.Name(), Err: fmt.Errorf("%w, or is /dev/null", os.ErrClosed)}
}
