package client

import "github.com/lockkeeper/lockkeeper/internal/ending"

// A signal says once that something has come: the outcome of a call, or the event of a watch. Guarded by Session.mu.
type signal struct {
	s        *Session
	over     bool            // nothing more will come: it is given, cancelled or has failed
	given    bool            // what it waits for has come
	observed bool            // a goroutine waits for it and does not read, or it is that of a request of the session's own
	done     chan struct{}   // nil until it is needed
	conn     uint64          // number of the connection on which the watch is set, or the answer came; 0 if none
	told     chan<- struct{} // gets a token when the signal is given; may be nil
}

// observe returns the channel that is closed when the signal is given, for a goroutine that does not read meanwhile.
func (g *signal) observe() <-chan struct{} {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.observeLocked()
	switch {
	case g.done != nil:
	case g.given:
		return given
	default:
		g.done = make(chan struct{})
	}
	return g.done
}

// given is the channel of the signals that nothing had waited for when they were given.
var given = ending.Ended(nil).Done()

func (g *signal) observeLocked() {
	if !g.over && !g.observed {
		g.observed = true
		g.s.addDependentsLocked(1)
	}
}

// notify is bridge.Notify.
func (g *signal) notify(told chan<- struct{}) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.told = told
	g.observeLocked()
	if g.given {
		tell(told)
	}
}

// giveLocked gives the signal.
func (g *signal) giveLocked() {
	g.endLocked()
	g.given = true
	if g.done != nil {
		close(g.done)
	}
	tell(g.told)
}

// endLocked notes that nothing is to be expected any more.
func (g *signal) endLocked() {
	g.over = true
	if g.observed {
		g.observed = false
		g.s.addDependentsLocked(-1)
	}
}

// tell puts a token into told, if that is not nil and there is none in it.
func tell(told chan<- struct{}) {
	select {
	case told <- struct{}{}:
	default:
	}
}
