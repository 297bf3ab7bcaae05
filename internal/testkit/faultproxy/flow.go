package faultproxy

import "sync"

// A Direction is one of the two in which messages travel.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// A Flow is what becomes of all that travels in one direction.
type Flow int

const (
	// Pass lets everything through.
	Pass Flow = iota
	// Stall keeps everything back, in order, until the flow changes; the end of the connection as
	// well. That is what a network that loses packets for a while does to a stream: no side learns
	// anything, and when it heals, what was lost is sent again.
	Stall
)

// A gate is a flow that can be waited for.
type gate struct {
	mu struct {
		sync.Mutex
		flow    Flow
		changed chan struct{} // closed and replaced when flow changes
	}
}

func newGate(f Flow) *gate {
	g := &gate{}
	g.mu.flow, g.mu.changed = f, make(chan struct{})
	return g
}

func (g *gate) set(f Flow) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.flow != f {
		g.mu.flow = f
		close(g.mu.changed)
		g.mu.changed = make(chan struct{})
	}
}

func (g *gate) get() (Flow, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.flow, g.mu.changed
}

// wait blocks until the flow is Pass and returns true, or false if done came first.
func (g *gate) wait(done <-chan struct{}) bool {
	for {
		f, changed := g.get()
		if f == Pass {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}
