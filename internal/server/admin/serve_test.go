package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
)

// serve runs Serve in a bubble and returns a way to its port, and one to end it that returns what
// Serve did.
func serve(t *testing.T, h http.Handler) (dial func() net.Conn, end func() error) {
	t.Helper()
	network := memnet.New()
	l, err := network.Listen("admin")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, h) }()
	dial = func() net.Conn {
		c, err := network.Dial(t.Context(), "admin")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	return dial, func() error {
		cancel()
		return <-served
	}
}

func hello(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }

// request sends a request and returns the body of the answer.
func request(c net.Conn) (string, error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return "", err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, end := serve(t, http.HandlerFunc(hello))
		c := dial()
		for range 2 {
			if got, err := request(c); got != "hello" || err != nil {
				t.Errorf("answer %q, %v", got, err)
			}
		}
		if err := end(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := request(c); err == nil {
			t.Error("answered after the end")
		}
	})
}

// An answer that takes too long does not keep Serve, but Serve does not leave it behind either.
func TestServeWaitsForItsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := false
		begun := make(chan struct{})
		dial, end := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done() // the connection is closed
			time.Sleep(time.Second)
			left = true
		}))
		go request(dial())
		<-begun
		began := time.Now()
		if err := end(); err != nil || !left {
			t.Errorf("Serve: %v; the handler was over: %v", err, left)
		}
		if took := time.Since(began); took != farewellTimeout+time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

func TestServeReportsABrokenListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := memnet.New().Listen("admin")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := Serve(t.Context(), l, http.HandlerFunc(hello)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v, want %v", err, net.ErrClosed)
		}
	})
}

// The port has limits: connections beyond the last place are closed until another ends, and a silent
// connection is ended.
func TestServeHasLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, end := serve(t, http.HandlerFunc(hello))
		first := dial()
		for range connectionsMax - 1 {
			dial()
		}
		synctest.Wait()
		if _, err := request(dial()); err == nil {
			t.Errorf("connection %d was answered", connectionsMax+1)
		}
		first.Close()
		synctest.Wait()
		last := dial()
		if got, err := request(last); got != "hello" || err != nil {
			t.Errorf("after a connection ended: %q, %v", got, err)
		}
		time.Sleep(idleTimeout + time.Second) // longer than headerTimeout
		for range connectionsMax {
			if got, err := request(dial()); got != "hello" || err != nil {
				t.Fatalf("after all have been silent for long: %q, %v", got, err)
			}
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}
