package memnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pair returns both ends of a connection from the client labelled "c" to "s".
func pair(t *testing.T, n *Network) (client, server net.Conn) {
	t.Helper()
	l, err := n.Listen("s")
	if err != nil {
		t.Fatal(err)
	}
	client, err = n.DialAs(t.Context(), "c", "s")
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if len(n.conns) != 0 {
			t.Errorf("network still lists %d connections", len(n.conns))
		}
	})
	return client, server
}

func mustWrite(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("Write(%q) = %d, %v", s, n, err)
	}
}

func wantRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func wantErr(t *testing.T, op string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", op, err, want)
	}
}

func readErr(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}

func writeErr(c net.Conn) error {
	_, err := c.Write([]byte("x"))
	return err
}

func TestBytesArriveInOrderThroughASmallBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := pair(t, New())
		sent := bytes.Repeat([]byte("0123456789abcdef"), bufferBytes/4)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Write(sent); err != nil {
				t.Error(err)
			}
			c.(*Conn).CloseWrite()
		})
		synctest.Wait() // the writer has filled the buffer and waits
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("read %d bytes, %v; want the %d sent", len(got), err, len(sent))
		}
		wg.Wait()
		mustWrite(t, s, "still open this way")
		wantRead(t, c, "still open this way")
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := pair(t, New())
		mustWrite(t, c, "last")
		c.Close()
		wantErr(t, "own read", readErr(c), net.ErrClosed)
		wantErr(t, "own write", writeErr(c), net.ErrClosed)
		wantErr(t, "peer's write", writeErr(s), syscall.ECONNRESET)
		wantRead(t, s, "last")
		wantErr(t, "peer's read", readErr(s), io.EOF)
		wantErr(t, "peer's second read", readErr(s), io.EOF)
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := pair(t, New())
		start := time.Now()
		c.SetReadDeadline(start.Add(time.Second))
		err := readErr(c)
		wantErr(t, "read", err, os.ErrDeadlineExceeded)
		if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
			t.Errorf("%v is not a timeout", err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("read gave up after %v, want 1s", d)
		}
		c.SetReadDeadline(time.Time{})
		mustWrite(t, s, "x")
		wantRead(t, c, "x")

		c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := c.Write(make([]byte, 2*bufferBytes))
		wantErr(t, "write", err, os.ErrDeadlineExceeded)
		if n != bufferBytes {
			t.Errorf("wrote %d bytes before the deadline, want %d", n, bufferBytes)
		}

		// A deadline that was moved does not strike at its old time.
		c.SetReadDeadline(time.Now().Add(time.Second))
		c.SetReadDeadline(time.Now().Add(3 * time.Second))
		start = time.Now()
		wantErr(t, "read", readErr(c), os.ErrDeadlineExceeded)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("read gave up after %v, want 3s", d)
		}
	})
}

func TestCloseWakesWhoWaits(t *testing.T) {
	for name, end := range map[string]struct {
		end  func(c, s net.Conn)
		want error
	}{
		"close": {func(c, s net.Conn) { c.Close() }, net.ErrClosed},
		"peer":  {func(c, s net.Conn) { s.Close() }, io.EOF},
		"cut":   {func(c, s net.Conn) { s.(*Conn).Cut() }, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := pair(t, New())
				done := make(chan error, 1)
				go func() { done <- readErr(c) }()
				synctest.Wait()
				end.end(c, s)
				wantErr(t, "read", <-done, end.want)
			})
		})
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.Link("c", "s").Latency(100 * time.Millisecond)
		start := time.Now()
		c, s := pair(t, n)
		if d := time.Since(start); d != 200*time.Millisecond {
			t.Errorf("connecting took %v, want 200ms", d)
		}
		start = time.Now()
		mustWrite(t, c, "a")
		n.Link("c", "s").Latency(0)
		mustWrite(t, c, "b")
		wantRead(t, s, "ab")
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("bytes took %v, want 100ms: what was sent later must not overtake", d)
		}
	})
}

func TestMuteHoldsBackAndHealLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		c, s := pair(t, n)
		link := n.Link("c", "")
		link.Mute(ToServer)
		mustWrite(t, c, "up")
		mustWrite(t, s, "down")
		wantRead(t, c, "down")
		s.SetReadDeadline(time.Now().Add(time.Hour))
		wantErr(t, "read over a muted link", readErr(s), os.ErrDeadlineExceeded)
		s.SetReadDeadline(time.Time{})
		c.Close() // the other side does not learn of it
		mustWrite(t, s, "down")
		link.Heal()
		wantRead(t, s, "up")
		wantErr(t, "read", readErr(s), io.EOF)
	})
}

func TestLoseForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		c, s := pair(t, n)
		n.Link("c", "s").Lose(ToServer)
		mustWrite(t, c, string(make([]byte, 10*bufferBytes)))
		n.Link("c", "s").Heal()
		mustWrite(t, c, "after")
		wantRead(t, s, "after")
	})
}

func TestFreezeIsOneClientsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		l, _ := n.Listen("s")
		defer l.Close()
		n.Freeze("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := n.DialAs(ctx, "a", "s")
		wantErr(t, "dial while frozen", err, context.DeadlineExceeded)
		b, err := n.DialAs(t.Context(), "b", "s")
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		time.AfterFunc(time.Minute, func() { n.Thaw("a") })
		start := time.Now()
		a, err := n.DialAs(t.Context(), "a", "s")
		if err != nil || time.Since(start) != time.Minute {
			t.Fatalf("dial = %v after %v, want success at the thaw, after 1m", err, time.Since(start))
		}
		a.Close()
	})
}

func TestRefuseAndNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		_, err := n.Dial(t.Context(), "s")
		wantErr(t, "dial an address without a listener", err, syscall.ECONNREFUSED)
		c, s := pair(t, n)
		l, _ := n.Listen("s")
		defer l.Close()
		n.Link("", "s").Refuse()
		_, err = n.Dial(t.Context(), "s")
		wantErr(t, "dial a refusing link", err, syscall.ECONNREFUSED)
		mustWrite(t, c, "x")
		wantRead(t, s, "x")
	})
}

func TestCutCountsAndBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		c, s := pair(t, n)
		mustWrite(t, c, "under way")
		if got := n.Link("other", "").Cut(); got != 0 {
			t.Errorf("Cut of another client's link hit %d connections", got)
		}
		if got := n.Link("c", "").Cut(); got != 1 {
			t.Errorf("Cut hit %d connections, want 1", got)
		}
		for name, c := range map[string]net.Conn{"client": c, "server": s} {
			wantErr(t, name+" read", readErr(c), syscall.ECONNRESET)
			wantErr(t, name+" write", writeErr(c), syscall.ECONNRESET)
		}
	})
}

func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		l, _ := n.Listen("s")
		_, err := n.Listen("s")
		wantErr(t, "second listen", err, syscall.EADDRINUSE)
		var waiting []net.Conn
		for range backlogMax {
			c, err := n.Dial(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, c)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.Dial(ctx, "s")
		wantErr(t, "dial with a full backlog", err, context.DeadlineExceeded)
		l.Close()
		_, err = l.Accept()
		wantErr(t, "accept", err, net.ErrClosed)
		for _, c := range waiting {
			wantErr(t, "read of a connection never accepted", readErr(c), syscall.ECONNRESET)
		}
		if len(n.conns) != 0 {
			t.Errorf("network still lists %d connections", len(n.conns))
		}
		if _, err := n.Listen("s"); err != nil {
			t.Errorf("listen again: %v", err)
		}
	})
}
