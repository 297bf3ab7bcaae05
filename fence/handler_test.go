package fence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
)

// holder is a hold that says what the test wants.
type holder struct {
	token int64
	cause error
}

func (h holder) Token() int64 { return h.token }
func (h holder) Cause() error { return h.cause }

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPut, "/r/fixed", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// echo answers with the claim that it finds.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	c, ok := FromContext(r.Context())
	fmt.Fprint(w, c.Resource, " ", c.Token, " ", ok)
})

func fenced(t *testing.T, next http.Handler, opt HandlerOptions) http.Handler {
	t.Helper()
	h, err := NewHandler(next, opt)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A handler that compares no tokens is one that was asked for.
func TestHandlerNeedsARegister(t *testing.T) {
	for want, h := range map[string]struct {
		next http.Handler
		opt  HandlerOptions
	}{
		"there is no handler":     {nil, HandlerOptions{Register: &Memory{}}},
		"option Register":         {echo, HandlerOptions{}},
		"Register and NextChecks": {echo, HandlerOptions{Register: &Memory{}, NextChecks: true}},
	} {
		if got, err := NewHandler(h.next, h.opt); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestHandlerAnswers(t *testing.T) {
	const T, R = TokenHeader, ResourceHeader
	checks := HandlerOptions{NextChecks: true}
	for _, tt := range []struct {
		name    string
		opt     HandlerOptions
		headers []string
		status  int
		body    string // is in it
	}{
		{"let in", checks, []string{T, "7", R, "a"}, 200, "a 7 true"},
		{"letter case", checks, []string{"lockkeeper-token", "7", "LOCKKEEPER-RESOURCE", "a"}, 200, "a 7 true"},
		{"the same again", HandlerOptions{Register: seen("a", 7)}, []string{T, "7", R, "a"}, 200, "a 7 true"},
		{"newer", HandlerOptions{Register: seen("a", 7)}, []string{T, "8", R, "a"}, 200, "a 8 true"},
		{"stale", HandlerOptions{Register: seen("a", 7)}, []string{T, "6", R, "a"}, 412, "token 6 is stale, 7 was seen"},
		{"another resource", HandlerOptions{Register: seen("a", 7)}, []string{T, "6", R, "b"}, 200, "b 6 true"},
		{"no token", checks, []string{R, "a"}, 428, T},
		{"no header at all", checks, nil, 428, T},
		{"no token, two resources", checks, []string{R, "a", R, "b"}, 428, T},
		{"no token, but allowed", HandlerOptions{NextChecks: true, Missing: echo}, nil, 200, " 0 false"},
		{"Missing is not for what is bad", HandlerOptions{NextChecks: true, Missing: echo}, []string{T, "x", R, "a"}, 400, "decimal"},
		{"no resource", checks, []string{T, "7"}, 400, "no name"},
		{"two tokens", checks, []string{T, "7", T, "8", R, "a"}, 400, "2 headers"},
		{"two resources", checks, []string{T, "7", R, "a", R, "b"}, 400, "2 headers"},
		{"empty", checks, []string{T, "", R, "a"}, 400, "decimal"},
		{"hexadecimal", checks, []string{T, "0x7", R, "a"}, 400, "decimal"},
		{"two ways to write it", checks, []string{T, "+7", R, "a"}, 400, "decimal"},
		{"zero", checks, []string{T, "0", R, "a"}, 400, "not positive"},
		{"too large", checks, []string{T, "9223372036854775808", R, "a"}, 400, "decimal"},
		{"long resource", checks, []string{T, "7", R, strings.Repeat("a", ResourceBytesMax+1)}, 400, "513 bytes"},
		{"the server names the resource", HandlerOptions{Resource: byPath, Register: seen("fixed", 7)},
			[]string{T, "6", R, "evasion"}, 412, "fence fixed"},
		{"the server knows no resource", HandlerOptions{NextChecks: true, Resource: func(*http.Request) string { return "" }},
			[]string{T, "6"}, 400, "no name"},
		{"full", HandlerOptions{Register: &Memory{ResourcesMax: -1}}, []string{T, "7", R, "a"}, 503, "full"},
		{"a register that fails", HandlerOptions{Register: failing{}}, []string{T, "7", R, "a"}, 503, "not available"},
	} {
		w := httptest.NewRecorder()
		fenced(t, echo, tt.opt).ServeHTTP(w, request(tt.headers...))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s: %d %q, want %d with %q", tt.name, w.Code, w.Body, tt.status, tt.body)
		}
	}
}

func byPath(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/r/") }

// seen returns a register that has seen a token.
func seen(resource string, token int64) *Memory {
	m := &Memory{}
	m.Do(context.Background(), Claim{resource, token}, nothing)
	return m
}

type failing struct{}

func (failing) Do(context.Context, Claim, func(context.Context) error) error {
	return errors.New("secret of the database")
}

func TestSetHeader(t *testing.T) {
	r := request()
	if err := SetHeader(r.Header, "a", holder{token: 7}); err != nil {
		t.Fatal(err)
	}
	if c, err := ParseHeader(r.Header); c != (Claim{"a", 7}) || err != nil {
		t.Errorf("claim %v, %v", c, err)
	}
	lost := errors.New("lost")
	for _, tt := range []struct {
		resource string
		holder   holder
		want     error
	}{
		{"a", holder{7, lost}, lost}, // over: nothing is sent in its name
		{"", holder{7, nil}, ErrInvalid},
		{"a", holder{0, nil}, ErrInvalid},
	} {
		r := request()
		if err := SetHeader(r.Header, tt.resource, tt.holder); !errors.Is(err, tt.want) || len(r.Header) > 0 {
			t.Errorf("%+v: %v, header %v; want %v and no header", tt, err, r.Header, tt.want)
		}
	}
}

func TestSetHeaderWithoutAHolder(t *testing.T) {
	r := request()
	if err := SetHeader(r.Header, "a", nil); !errors.Is(err, ErrInvalid) || len(r.Header) > 0 {
		t.Errorf("%v, header %v", err, r.Header)
	}
}

// A nil header is an error, and no panic in what sends the request.
func TestSetHeaderWithoutAHeader(t *testing.T) {
	if err := SetHeader(nil, "a", holder{token: 7}); err == nil || !strings.Contains(err.Error(), "the header is nil") {
		t.Errorf("SetHeader(nil, …) = %v", err)
	}
}

// A request that was let in and then takes its time is over before the next holder's begins: F19 at an
// HTTP server.
func TestHandlerNewerWaitsForOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored []string
		h := fenced(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _ := FromContext(r.Context())
			time.Sleep(time.Duration(10-c.Token) * time.Minute) // the older, the slower
			if err := context.Cause(r.Context()); err != nil {
				WriteError(w, err)
				return
			}
			stored = append(stored, fmt.Sprint(c.Token))
		}), HandlerOptions{Register: &Memory{}})
		old := httptest.NewRecorder()
		go h.ServeHTTP(old, request(TokenHeader, "1", ResourceHeader, "a"))
		synctest.Wait()
		recent := httptest.NewRecorder()
		h.ServeHTTP(recent, request(TokenHeader, "2", ResourceHeader, "a"))
		if old.Code != 412 || recent.Code != 200 || fmt.Sprint(stored) != "[2]" {
			t.Errorf("the older was answered with %d, the newer with %d, stored: %v", old.Code, recent.Code, stored)
		}
	})
}

// A holder that is paused in the middle of its request's body keeps the next one waiting for as long as the
// http.Server lets it, and no longer.
func TestHandlerPausedInItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		ln, err := network.Listen("store")
		if err != nil {
			t.Fatal(err)
		}
		var stored []string
		register := &Memory{}
		srv := &http.Server{ReadTimeout: time.Minute, Handler: fenced(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				stored = append(stored, string(body))
			}
		}), HandlerOptions{Register: register})}
		go srv.Serve(ln)
		defer srv.Close()
		put := func(token int, body string) net.Conn {
			nc, err := network.DialAs(t.Context(), fmt.Sprint(token), "store")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(nc, "PUT / HTTP/1.1\r\nHost: store\r\n%s: %d\r\n%s: a\r\nContent-Length: 3\r\n\r\n%s",
				TokenHeader, token, ResourceHeader, body)
			return nc
		}
		began := time.Now()
		defer put(1, "o").Close()
		time.Sleep(time.Second)
		newer := put(2, "new")
		defer newer.Close()
		answer, err := bufio.NewReader(newer).ReadString('\n')
		if err != nil || !strings.Contains(answer, "200") || time.Since(began) != srv.ReadTimeout || fmt.Sprint(stored) != "[new]" {
			t.Errorf("after %v the newer is answered with %q, %v; stored: %v", time.Since(began), answer, err, stored)
		}
	})
}

// Whatever is in the headers, a claim that is accepted is valid and means what it says.
func FuzzParseHeader(f *testing.F) {
	f.Add("7", "a")
	f.Add("-0", " ")
	f.Add("9223372036854775808", "\x00")
	f.Fuzz(func(t *testing.T, token, resource string) {
		h := http.Header{TokenHeader: {token}, ResourceHeader: {resource}}
		c, err := ParseHeader(h)
		if err != nil {
			if c != (Claim{}) || !errors.Is(err, ErrInvalid) {
				t.Fatalf("claim %v beside error %v", c, err)
			}
			return
		}
		if c.Check() != nil || fmt.Sprint(c.Token) != token || c.Resource != resource {
			t.Fatalf("%q %q: %v", token, resource, c)
		}
	})
}
