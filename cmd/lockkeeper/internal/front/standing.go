package front

import (
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

// holderFresh is how long the name of the holder counts after it was read. The engine reads it every two seconds.
const holderFresh = 6 * time.Second

// A Standing tells other goroutines whether this process holds the lock, and otherwise which process does. The zero
// value holds nothing. A nil Standing takes no notes.
type Standing struct {
	mu     sync.Mutex
	cell   *link.Cell // nil unless the child runs and the lock is not known to be lost
	plan   link.Plan
	token  int64
	holder string // while this process waits
	seen   time.Time
}

// Holds returns the fencing token, and the time until the child is killed unless a heartbeat is answered before. The
// time is 0 if the lock is not held.
func (s *Standing) Holds() (token int64, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cell == nil {
		return 0, 0
	}
	left = s.plan.KillAt(s.cell.Load()).Until()
	if left <= 0 {
		return 0, 0
	}
	return s.token, left
}

// Holder returns the holder that this process waits for; empty if that was not read lately.
func (s *Standing) Holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.seen) > holderFresh {
		return ""
	}
	return s.holder
}

// begin notes that the child runs under the lock.
func (s *Standing) begin(cell *link.Cell, plan link.Plan, token int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cell, s.plan, s.token, s.holder = cell, plan, token, ""
}

// end notes that the lock is lost or about to be given back. The cell is not read any more.
func (s *Standing) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cell, s.token = nil, 0
}

// waits notes which process this one waits for.
func (s *Standing) waits(holder string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder, s.seen = holder, time.Now()
}
