package link

import (
	"os"

	"golang.org/x/sys/unix"
)

// anonymousFile returns memory with a descriptor and without a name.
func anonymousFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("lockkeeper-deadline", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "deadline"), nil
}
