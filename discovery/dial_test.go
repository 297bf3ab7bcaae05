package discovery_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var errDead = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// A call tries each instance once, whatever other callers do and find out meanwhile, and those that have failed lately
// in the end. So the one that lives is found.
func TestDialTriesEachInstanceOnce(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 6))
				srv := zktest.New(t, zktest.Options{})
				k := keep(t, srv, "a")
				all := 2 + rng.IntN(4)
				publish(t, k, "s", all)
				d := open(t, k, discovery.Options{FailuresMax: 1 + rng.IntN(2)})
				for range 20 {
					live := d.Instances("s")[rng.IntN(all)]
					var tried []string
					dial := func(_ context.Context, _, address string) (net.Conn, error) {
						for range rng.IntN(4) { // other callers
							i, err := d.RoundRobin("s")
							must(t, err)
							if rng.IntN(2) == 0 {
								d.Failed(i)
							}
						}
						tried = append(tried, address)
						if address != hostPort(live) {
							return nil, errDead
						}
						near, far := net.Pipe()
						far.Close()
						return near, nil
					}
					conn, err := d.Dial(t.Context(), "tcp", "s", dial)
					if err != nil {
						t.Fatalf("%s of %d lives, tried were %v: %v", hostPort(live), all, tried, err)
					}
					conn.Close()
					slices.Sort(tried)
					if len(slices.Compact(slices.Clone(tried))) != len(tried) {
						t.Fatalf("tried were %v", tried)
					}
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type idler struct {
	roundTripper
	closed bool
}

func (i *idler) CloseIdleConnections() { i.closed = true }

// A client closes the idle connections of what its Transport sends requests by.
func TestCloseIdleConnections(t *testing.T) {
	next := new(idler)
	for _, n := range []http.RoundTripper{next.roundTripper, next} {
		(&http.Client{Transport: new(discovery.Directory).Transport(n)}).CloseIdleConnections()
	}
	if !next.closed {
		t.Error("they are not closed")
	}
}

// A body that cannot be read again is sent to one instance only. That this one is dead, is noted all the same.
func TestBodiesThatCannotBeReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		publish(t, k, "s", 3)
		d := open(t, k, discovery.Options{})
		dead := hostPort(d.Instances("s")[1])
		tries := 0
		hc := &http.Client{Transport: d.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			defer req.Body.Close()
			tries++
			if req.URL.Host == dead {
				return nil, errDead
			}
			body, err := io.ReadAll(req.Body)
			if string(body) != "stream" {
				t.Errorf("got the body %q, %v", body, err)
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
		}))}
		failed := 0
		for range 12 {
			if _, err := hc.Post("http://s/", "text/plain", io.MultiReader(strings.NewReader("stream"))); err != nil {
				failed++
			}
		}
		if failed != 2 || tries != 12 {
			t.Errorf("%d of 12 requests failed, in %d tries; want 2, in 12", failed, tries)
		}
		// Without a body, another instance is tried.
		d.Worked(d.Instances("s")[1])
		tries = 0
		for range 6 {
			req, err := http.NewRequest(http.MethodPost, "http://s/", nil)
			must(t, err)
			req.Body = http.NoBody
			resp, err := d.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
				tries++
				if req.URL.Host == dead {
					return nil, errDead
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
			})).RoundTrip(req)
			must(t, err)
			resp.Body.Close()
		}
		if tries != 8 {
			t.Errorf("%d tries without a body, want 8", tries)
		}
	})
}

// Curator allows an instance without an address or a port. Nothing is dialled for it, and another instance is tried.
func TestInstancesThatCannotBeDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, s := keep(t, srv, "a"), srv.Session(t, "s")
		must(t, discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "s", ID: "1", Address: "h"}, discovery.RegisterOptions{}))
		_, err := s.Put(t.Context(), "/services/s/2", discovery.Instance{Name: "s", ID: "2", Port: 80, Type: discovery.Static}.Encode(), nil)
		must(t, err)
		d := open(t, k, discovery.Options{})
		_, err = d.Dial(t.Context(), "tcp", "s", nil)
		want(t, "dial", fmt.Sprint(err), "instance 1 of s has no port\ninstance 2 of s has no address")
		var asked []string
		transport := d.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(req.Body)
			asked = append(asked, req.URL.Host+" "+string(body))
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, err
		}))
		post := func() error {
			_, err := (&http.Client{Transport: transport}).Post("http://s/", "text/plain", io.MultiReader(strings.NewReader("stream")))
			return err
		}
		if err := post(); err == nil || !strings.Contains(err.Error(), "instance 1 of s has no port") {
			t.Errorf("request: %v", err)
		}
		must(t, discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "s", ID: "3", Address: "h", SSLPort: 443}, discovery.RegisterOptions{}))
		synctest.Wait()
		for range 3 {
			must(t, post())
		}
		want(t, "asked", strings.Join(asked, ", "), "h:443 stream, h:443 stream, h:443 stream")
	})
}

// What ends an attempt at once, or a wait for connections that are in use, says nothing of an instance.
func TestInstancesThatAreNotToBlame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		publish(t, k, "s", 2)
		d := open(t, k, discovery.Options{FailuresMax: 1})
		allUsable := func(when string) {
			t.Helper()
			for _, wanted := range d.Instances("s") {
				found := false
				for range 4 {
					got, err := d.RoundRobin("s")
					found = found || err == nil && got.ID == wanted.ID
				}
				if !found {
					t.Errorf("%s: instance %s is left out", when, wanted.ID)
				}
			}
		}
		for _, left := range []time.Duration{-time.Second, time.Millisecond} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), left, errors.New("no time"))
			conn, err := d.Dial(ctx, "tcp", "s", func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v left: %v, %v", left, conn, err)
			}
			if left < 0 {
				want(t, "a Dial without time", err.Error(), "resolve /services/s: no time")
			}
			allUsable(fmt.Sprint(left, " left"))
		}
		next := &http.Transport{MaxConnsPerHost: 1, DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { // a server that is slow
				defer far.Close()
				if _, err := http.ReadRequest(bufio.NewReader(far)); err == nil { // a connection may be made for a request that has given up
					time.Sleep(time.Minute)
				}
			}()
			return near, nil
		}}
		for range 4 { // the first two take the connections
			go (&http.Client{Timeout: 10 * time.Second, Transport: d.Transport(next)}).Get("http://s/")
		}
		time.Sleep(20 * time.Second)
		allUsable("connections in use")
		time.Sleep(time.Hour)
		next.CloseIdleConnections()
	})
}

// A host that drops all packets takes a part of a caller's time, and is left out after two such attempts.
func TestAHostThatDropsPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		publish(t, k, "s", 3)
		var dead string
		var tried atomic.Int32
		dial := func(ctx context.Context, _, address string) (net.Conn, error) {
			if address == dead {
				tried.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(30 * time.Second): // http.Transport dials on without the request
				}
				return nil, errDead
			}
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				if _, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
					io.WriteString(far, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
				}
			}()
			return near, nil
		}
		for _, byHTTP := range []bool{false, true} {
			d := open(t, k, discovery.Options{})
			dead = hostPort(d.Instances("s")[1])
			tried.Store(0)
			client := &http.Client{Timeout: 100 * time.Millisecond, Transport: d.Transport(&http.Transport{DialContext: dial})}
			failed := 0
			for range 12 {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				if byHTTP {
					resp, err := client.Get("http://s/")
					if err != nil {
						failed++
					} else {
						resp.Body.Close()
					}
				} else if conn, err := d.Dial(ctx, "tcp", "s", dial); err != nil {
					failed++
				} else {
					conn.Close()
				}
				cancel()
			}
			if want := map[bool]int{false: 0, true: 2}[byHTTP]; failed != want || tried.Load() != 2 {
				t.Errorf("http %v: %d of 12 failed, and the host was tried %d times; want %d, and 2 times", byHTTP, failed, tried.Load(), want)
			}
			time.Sleep(time.Minute)
			client.CloseIdleConnections()
		}
	})
}
