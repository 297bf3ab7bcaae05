package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// guests is a listener that bounds its connections. When all places are taken, a new connection gets the place of the one
// that has been there for the longest without a request, or else of the one that has taken the longest to be answered,
// if that is more than a second. So slow clients do not keep /healthz from answering, and are not waited for.
type guests struct {
	net.Listener

	inside sync.WaitGroup
	mu     sync.Mutex
	all    map[net.Conn]*guest // guarded by mu
}

// A guest is a connection. Its fields are guarded by guests.mu.
type guest struct {
	served bool      // a request is being answered
	since  time.Time // when that, or the silence, began
}

// servedMin is how long a request has been answered before its connection is closed for another.
const servedMin = time.Second

func newGuests(l net.Listener) *guests {
	return &guests{Listener: l, all: make(map[net.Conn]*guest)}
}

func (g *guests) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.admit(c) {
			return c, nil
		}
		c.Close()
	}
}

// admit gives a connection a place, and reports whether there is one.
func (g *guests) admit(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if len(g.all) >= connectionsMax {
		slow := g.slowestLocked(now)
		if slow == nil {
			return false
		}
		delete(g.all, slow)
		slow.Close()
	}
	g.all[c] = &guest{since: now}
	return true
}

// slowestLocked returns the connection that has to go, nil if all are being answered.
func (g *guests) slowestLocked(now time.Time) (slow net.Conn) {
	var worst *guest
	for c, one := range g.all {
		if one.served && now.Sub(one.since) < servedMin {
			continue
		}
		if worst == nil || worst.served && !one.served || worst.served == one.served && one.since.Before(worst.since) {
			slow, worst = c, one
		}
	}
	return slow
}

// guestKey is the key of a connection in the context of its requests.
type guestKey struct{}

func (g *guests) label(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, c)
}

// trackRequests notes which connections have a request that is being answered.
func (g *guests) trackRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(guestKey{}).(net.Conn)
		g.note(c, true)
		defer g.note(c, false)
		h.ServeHTTP(w, r)
	})
}

func (g *guests) note(c net.Conn, served bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one := g.all[c]; one != nil {
		one.served, one.since = served, time.Now()
	}
}

// connState is called by the HTTP server: before it gives a connection a goroutine of its own, and as
// the last thing on that goroutine.
func (g *guests) connState(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		g.inside.Add(1)
	case http.StateClosed:
		g.mu.Lock()
		delete(g.all, c)
		g.mu.Unlock()
		g.inside.Done()
	}
}
