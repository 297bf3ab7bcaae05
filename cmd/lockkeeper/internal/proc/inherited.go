package proc

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// CloseInherited closes the descriptors that this process was born with, except the standard streams
// and those to keep. A process that stays in the background must not hold on to the pipe that a reader
// is reading to its end. Descriptors that we have opened ourselves are not affected: unlike inherited
// ones they are marked to be closed on exec.
func CloseInherited(keep ...int) error {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= syscall.Stderr || slices.Contains(keep, fd) {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// DropStreams closes our copies of standard input and output, which are the child's, so that a process that reads
// from it or writes to it sees when the child has closed its side. Standard error stays, for a last word.
func DropStreams() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // they stay open, then
	}
	unix.Dup2(int(null.Fd()), syscall.Stdin)
	unix.Dup2(int(null.Fd()), syscall.Stdout)
	null.Close()
}
