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
// One goroutine reads at a time, and one writes.
type socket struct {
	in, out transfer
}

// A transfer is a read, or a write, that is under way.
type transfer struct {
	trap uintptr                        // SYS_READ or SYS_WRITE
	step func(fd uintptr) bool          // move or moveAll
	via  func(func(uintptr) bool) error // calls step until it is done, whenever the socket is ready

	b   []byte // the rest of the buffer
	n   int    // bytes that have been read, or written
	err error  // of the system call
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
	s := &socket{in: transfer{trap: syscall.SYS_READ, via: raw.Read}, out: transfer{trap: syscall.SYS_WRITE, via: raw.Write}}
	s.in.step, s.out.step = s.in.move, s.out.moveAll
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

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.in.run(b)
	if n == 0 && err == nil && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) { return s.out.run(b) }

func (t *transfer) run(b []byte) (int, error) {
	t.b, t.n, t.err = b, 0, nil
	err := t.via(t.step)
	t.b = nil
	var op *net.OpError
	switch {
	case err == nil:
		err = t.err
	case errors.As(err, &op):
		op.Op = strings.TrimPrefix(op.Op, "raw-") // the prefix says how, and not what
	}
	return t.n, err
}

// move reads or writes as much as the socket takes at once. It reports false if it is not ready.
func (t *transfer) move(fd uintptr) (done bool) {
	for {
		n, _, errno := syscall.RawSyscall(t.trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.b))), uintptr(len(t.b)))
		switch errno {
		case 0:
			t.n, t.b = t.n+int(n), t.b[n:]
			return true
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			t.err = errno
			return true
		}
	}
}

// moveAll is move until nothing is left.
func (t *transfer) moveAll(fd uintptr) (done bool) {
	for len(t.b) > 0 && t.err == nil {
		if !t.move(fd) {
			return false
		}
	}
	return true
}
