package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What reads and writes a socket does as package net would.
func TestDirect(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			near, far := sockets(t, network)
			rw := Direct(near)
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // more than the kernel has room for
			echoed := make(chan error, 1)
			go func() {
				_, err := io.CopyN(far, far, int64(len(sent)))
				echoed <- err
			}()
			wrote := make(chan error, 1)
			go func() {
				n, err := rw.Write(sent)
				if n != len(sent) {
					t.Errorf("wrote %d bytes of %d", n, len(sent))
				}
				wrote <- err
			}()
			got := make([]byte, len(sent))
			_, err := io.ReadFull(rw, got)
			if err := errors.Join(err, <-wrote, <-echoed); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("what has come back is what was sent: %v, error %v", bytes.Equal(got, sent), err)
			}

			near.SetReadDeadline(time.Unix(1, 0))
			if n, err := rw.Read(got); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Read behind its deadline = %d, %v; want a timeout", n, err)
			}
			near.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			for err == nil { // the peer does not read any more
				var n int
				if n, err = rw.Write(sent); (n == len(sent)) != (err == nil) {
					t.Errorf("Write = %d of %d, %v", n, len(sent), err)
				}
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Write until its deadline: %v, want a timeout", err)
			}
			near.SetDeadline(time.Time{})

			far.Write([]byte("bye"))
			far.(interface{ CloseWrite() error }).CloseWrite()
			if all, err := io.ReadAll(rw); string(all) != "bye" || err != nil {
				t.Errorf("to the end, it has read %q, %v", all, err)
			}
			far.Close()
			for err = nil; err == nil; { // it may take a moment to be known
				_, err = rw.Write([]byte("late"))
			}
			if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("Write to a peer that has gone: %v", err)
			}
			near.Close()
			_, want := near.Read(got)
			if _, err := rw.Read(got); !errors.Is(err, net.ErrClosed) || err.Error() != want.Error() {
				t.Errorf("Read of what is closed: %v, want %v", err, want)
			}
		})
	}
}

// A socket that blocks is left to package net: the scheduler has to know.
func TestDirectOfASocketThatBlocks(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		near, _ := sockets(t, network)
		f, err := near.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		f.Fd() // shares its flags with near
		f.Close()
		if rw := Direct(near); rw != io.ReadWriter(near) {
			t.Errorf("%s: a socket that blocks is read and written by a %T", network, rw)
		}
	}
}

// sockets returns the two ends of a connection.
func sockets(t *testing.T, network string) (near, far net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "") // a socket's path must be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		address = filepath.Join(dir, "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if near, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}
