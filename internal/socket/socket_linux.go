package socket

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"unsafe"
)

// A socket reads and writes a connection by system calls that Go's scheduler does not know of. The scheduler has to know of calls
// that may block, and calls on sockets of package net never do. When it knows of a call, it wakes a thread (sysmon in package
// runtime) if the process was idle. That thread looks whether the call takes long, until the process is idle again. A
// client that mostly waits pays as much for this as for all of its own work.
type socket struct{ raw syscall.RawConn }

// Direct returns a socket that reads and writes nc, which is one of package net, or nc itself if calls on it may block.
func Direct(nc net.Conn) io.ReadWriter {
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil || mayBlock(raw) {
		return nc
	}
	return socket{raw}
}

// mayBlock reports whether calls on the socket block, as they do once its file's descriptor has been asked for
// (os.File.Fd), to set an option for instance. The scheduler does not know of such a call, which would stop the program.
func mayBlock(raw syscall.RawConn) bool {
	blocks := true
	raw.Control(func(fd uintptr) {
		flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		blocks = errno != 0 || flags&syscall.O_NONBLOCK == 0
	})
	return blocks
}

func (s socket) Read(b []byte) (n int, err error) {
	var errno syscall.Errno
	err = s.raw.Read(func(fd uintptr) (done bool) {
		n, errno = transfer(syscall.SYS_READ, fd, b)
		return errno != syscall.EAGAIN
	})
	if n == 0 && err == nil && errno == 0 && len(b) > 0 {
		err = io.EOF
	}
	return n, netError(err, errno)
}

func (s socket) Write(b []byte) (n int, err error) {
	var errno syscall.Errno
	err = s.raw.Write(func(fd uintptr) (done bool) {
		for n < len(b) {
			var wrote int
			wrote, errno = transfer(syscall.SYS_WRITE, fd, b[n:])
			if errno != 0 {
				return errno != syscall.EAGAIN
			}
			n += wrote
		}
		return true
	})
	return n, netError(err, errno)
}

// transfer reads or writes as much as the socket takes at once.
func transfer(trap, fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		if errno != syscall.EINTR {
			return max(int(n), 0), errno // n is -1 with an error
		}
	}
}

// netError returns what package net would say of the end of a call: waiting for the socket failed, or the system call did.
func netError(waiting error, errno syscall.Errno) error {
	if waiting == nil && errno != 0 {
		return errno
	}
	if op, ok := errors.AsType[*net.OpError](waiting); ok {
		op.Op = strings.TrimPrefix(op.Op, "raw-") // the prefix says how, and not what
	}
	return waiting
}
