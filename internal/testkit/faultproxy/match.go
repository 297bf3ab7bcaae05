package faultproxy

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A Match says which requests a rule is for. Conditions left at their zero value hold for every
// request; all others must hold together. Conditions on the path hold if they hold for one of the
// request's paths, when it has several.
type Match struct {
	Ops    []wire.Op // one of these; Creates and Lists name the families
	Path   string    // exactly
	Prefix string    // of the path

	// Skip lets that many matching requests pass before the rule begins to act. Times bounds on
	// how many it then acts: 0 is once, Always is without end.
	Skip  int
	Times int
}

// Always is the value of Match.Times for a rule that acts on every matching request.
const Always = -1

// Creates returns the operations that create a znode.
func Creates() []wire.Op {
	return []wire.Op{wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL}
}

// Lists returns the operations that list children.
func Lists() []wire.Op { return []wire.Op{wire.OpGetChildren, wire.OpGetChildren2} }

// matches reports whether the conditions hold for r. Skip and Times are counted elsewhere.
func (m *Match) matches(r Request) bool {
	return (len(m.Ops) == 0 || slices.Contains(m.Ops, r.Op)) &&
		m.matchesPath(r)
}

func (m *Match) matchesPath(r Request) bool {
	if len(r.Steps) == 0 {
		return m.acceptsPath(r.Path)
	}
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return m.acceptsPath(s.Path) })
}

func (m *Match) acceptsPath(path string) bool {
	return (m.Path == "" || m.Path == path) && strings.HasPrefix(path, m.Prefix)
}

// A tally counts the requests that one Match has met.
type tally struct {
	seen  int // matching requests
	acted int // of these, on how many the rule acted
}

// take counts one more matching request and reports whether the rule acts on it.
func (t *tally) take(m *Match) bool {
	t.seen++
	if t.seen <= m.Skip || m.Times != Always && t.acted >= max(m.Times, 1) {
		return false
	}
	t.acted++
	return true
}
