package localserver

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ownUmask makes what a keeper needs be made with the modes that the code names, whatever its user's umask is: a directory
// that the user cannot enter would stay for every later keeper. restore sets what was found.
func ownUmask() (restore func()) {
	found := syscall.Umask(0o077)
	return func() { syscall.Umask(found) }
}

// outgrow frees a keeper from limits that were set for the programs of the shell that started it, if they can be
// raised. One on the size of files would end it at the next log.
func outgrow() {
	for _, resource := range []int{unix.RLIMIT_FSIZE, unix.RLIMIT_CPU, unix.RLIMIT_DATA, unix.RLIMIT_AS} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource, &limit); err == nil && limit.Cur != limit.Max {
			limit.Cur = limit.Max
			unix.Setrlimit(resource, &limit) // it may go on with what it has
		}
	}
}
