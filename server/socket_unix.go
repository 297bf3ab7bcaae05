//go:build unix

package server

import (
	"net"
	"syscall"
)

// inputProbe tells whether something has arrived that has not been read yet.
type inputProbe struct {
	raw  syscall.RawConn // nil if the connection is not the system's
	peek func(fd uintptr) bool
	some *bool
}

func newInputProbe(nc net.Conn) inputProbe {
	raw := rawConn(nc)
	if raw == nil {
		return inputProbe{}
	}
	some := new(bool)
	return inputProbe{raw: raw, some: some, peek: func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		*some = err == nil && n > 0
		return true
	}}
}

// A directWriter sends what a socket takes without waiting.
type directWriter struct {
	raw syscall.RawConn // nil if the connection is not the system's own, which writes what it is given as it is
}

func newDirectWriter(nc net.Conn) directWriter {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return directWriter{rawConn(nc)}
	}
	return directWriter{}
}

// write sends what it can of b, and returns how much that was. What is wrong with the connection, the next write that waits finds out.
func (w directWriter) write(b []byte) (sent int) {
	if w.raw == nil {
		return 0
	}
	w.raw.Write(func(fd uintptr) bool {
		sent, _ = syscall.SendmsgN(int(fd), b, nil, nil, syscall.MSG_DONTWAIT)
		return true
	})
	return max(sent, 0)
}

// rawConn is the system's connection under nc, inside TLS perhaps; nil if there is none.
func rawConn(nc net.Conn) syscall.RawConn {
	if wrapped, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = wrapped.NetConn()
	}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// waits is for the connection's reader. Of a connection that is not the system's it knows nothing, and
// says no.
func (p inputProbe) waits() bool {
	return p.raw != nil && p.raw.Read(p.peek) == nil && *p.some
}
