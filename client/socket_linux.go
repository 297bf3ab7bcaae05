package client

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
//
// One goroutine at a time reads, and one writes.
type socket struct {
	raw     syscall.RawConn
	in, out transfer
}

// directIO returns a socket that reads and writes nc, or nc itself if it is not a plain socket that never blocks.
func directIO(nc net.Conn) io.ReadWriter {
	var raw syscall.RawConn
	var err error
	switch nc := nc.(type) {
	case *net.TCPConn:
		raw, err = nc.SyscallConn()
	case *net.UnixConn:
		raw, err = nc.SyscallConn()
	}
	if raw == nil || err != nil || mayBlock(raw) {
		return nc
	}
	s := &socket{raw: raw, in: transfer{call: syscall.SYS_READ}, out: transfer{call: syscall.SYS_WRITE, whole: true}}
	s.in.try, s.out.try = s.in.onSocket, s.out.onSocket
	return s
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

func (s *socket) Read(b []byte) (n int, err error) {
	s.in.buf, s.in.n = b, 0
	n, err = s.in.end(s.raw.Read(s.in.try))
	if n == 0 && err == nil && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

func (s *socket) Write(b []byte) (n int, err error) {
	s.out.buf, s.out.n = b, 0
	return s.out.end(s.raw.Write(s.out.try))
}

// A transfer moves bytes from or to a socket. There is one for each direction, with its function, since both would be garbage after
// each read and write otherwise.
type transfer struct {
	call  uintptr               // number of the system call
	whole bool                  // all of buf is to be moved, and not only what the socket takes at once
	try   func(fd uintptr) bool // onSocket

	buf   []byte
	n     int // bytes of buf that have been moved
	errno syscall.Errno
}

// onSocket moves bytes, and reports false if it is to be called again when the socket is ready.
func (t *transfer) onSocket(fd uintptr) (done bool) {
	for {
		rest := t.buf[t.n:]
		var n uintptr
		n, _, t.errno = syscall.RawSyscall(t.call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)))
		switch t.errno {
		case 0:
			t.n += int(n)
			if !t.whole || t.n == len(t.buf) {
				return true
			}
		case syscall.EINTR:
		default:
			return t.errno != syscall.EAGAIN
		}
	}
}

// end returns how much has been moved, and what package net would say of the end: waiting for the socket failed, or the system call
// did.
func (t *transfer) end(waiting error) (n int, err error) {
	t.buf = nil
	switch {
	case waiting == nil && t.errno == 0:
		return t.n, nil
	case waiting == nil:
		return t.n, t.errno
	}
	if op, ok := errors.AsType[*net.OpError](waiting); ok {
		op.Op = strings.TrimPrefix(op.Op, "raw-") // the prefix says how, and not what
	}
	return t.n, waiting
}
