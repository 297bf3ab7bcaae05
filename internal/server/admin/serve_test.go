package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
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

// Slow clients take all places: those that send nothing, half a request, or read no answers. A new client is answered all
// the same, and the number of connections stays bounded.
func TestSlowClientsDoNotKeepOthersAway(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, begin := range map[string]string{
		"silent": "", "half a request": "GET / HTTP/1.1\r\nHost: x\r\n", "not reading": "GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial, end := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/large" {
						io.WriteString(w, large)
						return
					}
					hello(w, r)
				}))
				for range 2 * connectionsMax {
					if _, err := io.WriteString(dial(), begin); err != nil {
						t.Fatal(err)
					}
					time.Sleep(20 * time.Millisecond)
				}
				for range 10 {
					if got, err := request(dial()); got != "hello" || err != nil {
						t.Fatalf("answer %q, %v", got, err)
					}
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Connections whose requests are being answered keep their places for a moment; others are closed then.
func TestTheAdminPortHasLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		dial, end := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-gate
			hello(w, r)
		}))
		var busy []net.Conn
		for range connectionsMax {
			c := dial()
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			busy = append(busy, c)
		}
		synctest.Wait()
		if b, _ := io.ReadAll(dial()); len(b) > 0 { // it is closed at once
			t.Errorf("connection %d was answered", connectionsMax+1)
		}
		close(gate)
		for i, c := range busy {
			if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("connection %d: %v", i, err)
			}
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

// A page in a browser on this machine may have given its own name this machine's address.
func TestRequestsByAnotherNameAreRefused(t *testing.T) {
	for _, c := range []struct {
		local, host string
		want        int
	}{
		{"127.0.0.1", "127.0.0.1:8080", 200}, {"127.0.0.1", "localhost:8080", 200}, {"127.0.0.1", "LOCALHOST", 200}, {"::1", "[::1]:8080", 200},
		{"::1", "[::1]", 200}, {"127.0.0.1", "", 200}, {"127.0.0.1", "evil.example:8080", 403}, {"::1", "evil.example", 403},
		{"127.0.0.1", "localhost.evil.example", 403}, {"10.0.0.7", "zk1.example:8080", 200},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = c.host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(c.local), Port: 8080}))
		w := httptest.NewRecorder()
		checkHost(http.HandlerFunc(hello)).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("Host %q at %s: %d, want %d", c.host, c.local, w.Code, c.want)
		}
	}
}

// A web page cannot make the browser that shows it change anything. Programs and the port's own pages can.
func TestPostsOfOtherSitesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		for _, c := range []struct {
			header, value string
			want          int
		}{
			{"Sec-Fetch-Site", "cross-site", 403}, {"Sec-Fetch-Site", "same-site", 403},
			{"Origin", "http://evil.example", 403}, {"Origin", "null", 403}, {"Origin", "http://127.0.0.1:9090", 403},
			{"Origin", "http://127.0.0.1:8080", 200}, {"Sec-Fetch-Site", "same-origin", 200}, {"Sec-Fetch-Site", "none", 200}, {"Accept", "*/*", 200},
		} {
			before := r.Stats().Received
			q := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/commands/stat_reset", strings.NewReader("a=b"))
			q.Header.Set(c.header, c.value)
			w := httptest.NewRecorder()
			r.ServeHTTP(w, q)
			if reset := r.Stats().Received < before; w.Code != c.want || reset != (c.want == 200) {
				t.Errorf("%s %s: %d, reset: %t; want %d", c.header, c.value, w.Code, reset, c.want)
			}
			r.send(wire.OpExists, &wire.WatchRequest{Path: "/"})
			r.answer()
			q = httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080/commands/ruok", nil)
			q.Header.Set(c.header, c.value)
			w = httptest.NewRecorder()
			r.ServeHTTP(w, q)
			if w.Code != 200 {
				t.Errorf("%s %s: %d for a GET", c.header, c.value, w.Code)
			}
		}
	})
}
