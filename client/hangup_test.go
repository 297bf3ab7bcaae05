package client

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// What has been written to a connection and has not left when it is given up must not leave afterwards: the
// request would be carried out when its outcome has been decided on another connection.
func TestHangUpTakesBackWhatHasNotLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	written := 0
	for chunk := make([]byte, 1<<20); ; { // the peer does not read, so some of it stays here
		near.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := near.Write(chunk)
		written += n
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if n == 0 && written > 0 {
			break
		}
	}
	hangUp(near)
	far.SetReadDeadline(time.Now().Add(time.Minute))
	read, err := io.Copy(io.Discard, far)
	if read >= int64(written) || err == nil {
		t.Errorf("%d bytes arrived of %d, then %v; want fewer and a reset", read, written, err)
	}
}

// A connection that is made of a *tls.Conn has something of its own to close.
func TestHangUpClosesWhatIsAroundTLS(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	wrapped := &tunnel{Conn: tls.Client(near, &tls.Config{})}
	hangUp(wrapped)
	if _, err := near.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) || wrapped.closed != 1 {
		t.Errorf("Write = %v, closed %d times; want both closed, once", err, wrapped.closed)
	}
}

type tunnel struct {
	*tls.Conn
	closed int
}

func (t *tunnel) Close() error {
	t.closed++
	return t.Conn.Close()
}
