package locksuite

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Register is a resource that locks protect: it remembers tokens and refuses old ones, and it notices overlaps.
type Register struct {
	mu      sync.Mutex
	inside  int
	highest int64
	tokens  []int64
	faults  []string
}

// Enter is called by a holder that begins to work.
func (r *Register) Enter(token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside++
	if r.inside > 1 {
		r.faults = append(r.faults, fmt.Sprintf("token %#x entered while another was inside", token))
	}
	if token <= r.highest {
		r.faults = append(r.faults, fmt.Sprintf("token %#x after %#x", token, r.highest))
	}
	r.highest = max(r.highest, token)
	r.tokens = append(r.tokens, token)
}

// Leave is called by a holder that has stopped working.
func (r *Register) Leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside--
}

// Write is a holder's write that may be late: it reports whether the register took it.
func (r *Register) Write(token int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		return false
	}
	r.highest = token
	return true
}

// Check ends the test if exclusion was broken (I1).
func (r *Register) Check(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults) > 0 {
		t.Fatalf("I1: %s", strings.Join(r.faults, "; "))
	}
	if !slices.IsSorted(r.tokens) {
		t.Fatalf("I1: tokens do not grow: %v", r.tokens)
	}
}
