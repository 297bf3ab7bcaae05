package world

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/test/sim/rt"
)

// systemClock is the clock of processes that no fault concerns: virtual time alone.
var systemClock = &clock.Clock{}

// A proc is one process with a session, and with another one when that is over.
type proc struct {
	w     *World
	n     int
	label string
	group rt.Group
	turn  chan struct{} // holds one token, for the goroutine that opens a session
	clock clock.Clock
	step  atomic.Int64      // by which the clock that counts suspended time is ahead
	proxy *faultproxy.Proxy // nil if no fault of the plan needs one

	mu      sync.Mutex // guards what follows
	session *client.Session
	paused  int             // pauses that are going on
	resumed time.Duration   // when the last pause ended; -1 if there was none
	pauses  []time.Duration // when each began
}

func newProc(w *World, n int) *proc {
	p := &proc{w: w, n: n, label: fmt.Sprint("p", n), group: rt.Group(n + 1), turn: make(chan struct{}, 1), resumed: -1}
	p.clock.Elapsed = func(time.Time) time.Duration { return w.now() + time.Duration(p.step.Load()) }
	p.turn <- struct{}{}
	if slices.ContainsFunc(w.plan.Steps, func(s Step) bool { return s.Do == "snip" && s.Who == n }) {
		p.proxy = faultproxy.New(w.net.Dialer(p.label))
	}
	return p
}

// link is the process's way to all servers.
func (p *proc) link() *memnet.Link { return p.w.net.Link(p.label, "") }

// now returns the session, nil if there is none or it is over.
func (p *proc) now() *client.Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == nil || p.session.Err() != nil {
		return nil
	}
	return p.session
}

// open returns the session, or a new one if that is over.
func (p *proc) open(ctx context.Context) (*client.Session, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { p.turn <- struct{}{} }()
	if s := p.now(); s != nil {
		return s, nil
	}
	opt := client.Options{SessionTimeout: p.w.plan.Timeout, BackoffMax: backoffMax, Dial: p.dial}
	s, err := client.Open(ctx, p.w.keeper.servers(), clock.With(opt, &p.clock))
	if err != nil {
		return nil, err
	}
	p.w.note(p.n, "opened session %v", s)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = s
	return s, nil
}

// backoffMax is how long processes pause at most before they try the servers again, so that what must
// happen within a second after the network is healthy can.
const backoffMax = 200 * time.Millisecond

// pausedSince returns when the process was first paused, from a moment on; -1 if it was not.
func (p *proc) pausedSince(at time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, began := range p.pauses {
		over := p.resumed
		if i+1 < len(p.pauses) {
			over = p.pauses[i+1] // or sooner
		}
		if began >= at || p.paused > 0 && i+1 == len(p.pauses) || over >= at {
			return max(began, at)
		}
	}
	return -1
}

// dial connects to a server, through the process's proxy if it has one.
func (p *proc) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p.proxy == nil {
		return p.w.net.DialAs(ctx, p.label, address)
	}
	rt.Enter(0) // what carries the connection is no part of the process
	defer rt.Enter(p.group)
	return p.proxy.Dial(ctx, network, address)
}

// excused reports whether the process could not look at its holds in this instant.
func (p *proc) excused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused > 0 || p.resumed == p.w.now()
}

// pause stops the process. Pauses may overlap. Without a patched runtime only its network stops.
func (p *proc) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused++
	if p.paused > 1 {
		return
	}
	p.pauses = append(p.pauses, p.w.now())
	rt.Pause(p.group)
	if !rt.Patched {
		p.w.net.Freeze(p.label)
	}
}

// resume ends one pause.
func (p *proc) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused--
	if p.paused > 0 {
		return
	}
	p.resumed = p.w.now()
	if !rt.Patched {
		p.w.net.Thaw(p.label)
	}
	rt.Resume(p.group)
}

// bounded runs a call and checks that it returned within its limit (I5).
func (p *proc) bounded(what string, limit time.Duration, f func(ctx context.Context)) {
	began := p.w.now()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	f(ctx)
	p.mu.Lock()
	due := max(began+limit, p.resumed) + 250*time.Millisecond
	p.mu.Unlock()
	if now := p.w.now(); now > due {
		p.w.violated("I5: %s of p%d took %v, the limit was %v", what, p.n, now-began, limit)
	}
}

func (p *proc) close() {
	if p.proxy != nil {
		defer p.proxy.Close()
	}
	if s := p.now(); s != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			p.w.violated("close session of p%d: %v", p.n, err)
		}
	}
}
