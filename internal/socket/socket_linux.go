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
//
// One goroutine reads at a time, and one writes: the functions that RawConn calls are made once, and would take memory for each call.
type socket struct {
	raw              syscall.RawConn
	reading, writing piece
	read, write      func(fd uintptr) (done bool)
}

// A piece is what a call reads or writes.
type piece struct {
	b     []byte
	n     int // bytes that have been read or written
	errno syscall.Errno
}

// Direct returns a socket that reads and writes nc, which is one of package net, or nc itself if calls on it may block.
func Direct(nc net.Conn) io.ReadWriter {
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil || mayBlock(raw) {
		return nc
	}
	s := &socket{raw: raw}
	s.read = func(fd uintptr) bool { return s.reading.transfer(syscall.SYS_READ, fd) != syscall.EAGAIN }
	s.write = s.writeAll
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
	s.reading = piece{b: b}
	err := s.raw.Read(s.read)
	p := s.reading
	s.reading = piece{}
	if p.n == 0 && err == nil && p.errno == 0 && len(b) > 0 {
		err = io.EOF
	}
	return p.n, netError(err, p.errno)
}

func (s *socket) Write(b []byte) (int, error) {
	s.writing = piece{b: b}
	err := s.raw.Write(s.write)
	p := s.writing
	s.writing = piece{}
	return p.n, netError(err, p.errno)
}

func (s *socket) writeAll(fd uintptr) (done bool) {
	for p := &s.writing; p.n < len(p.b); {
		if errno := p.transfer(syscall.SYS_WRITE, fd); errno != 0 {
			return errno != syscall.EAGAIN
		}
	}
	return true
}

// transfer reads or writes as much as the socket takes at once.
func (p *piece) transfer(trap, fd uintptr) syscall.Errno {
	b := p.b[p.n:]
	for {
		var n uintptr
		n, _, p.errno = syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		if p.errno == 0 {
			p.n += int(n)
		}
		if p.errno != syscall.EINTR {
			return p.errno
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
