package leases

import (
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

const (
	// sampleInterval is how often a session is looked at.
	sampleInterval = 5 * time.Millisecond
	// rounding is how much the two rules may differ because they were read one after the other.
	rounding = 2 * time.Millisecond
)

// A sighting is a proof and when it was seen first. Both times count from the beginning of the record.
type sighting struct{ sent, seen time.Duration }

// A record is what one session's lease did at one level, while a lock was held on it.
type record struct {
	s       *client.Session
	level   client.Vouch
	timeout time.Duration
	began   time.Time

	mu struct {
		sync.Mutex
		proofs    []sighting
		all       int
		shortened int           // proofs whose lease was shorter than the old rule's
		least     time.Duration // that a lease had left
	}
}

func newRecord(s *client.Session, level client.Vouch) *record {
	r := &record{s: s, level: level, timeout: s.Timeout(), began: time.Now()}
	r.mu.least = r.timeout
	return r
}

func (r *record) now() time.Duration { return time.Since(r.began) }

// sample looks at the session once.
func (r *record) sample() {
	l := bridge.Of(r.s).Lease(int(r.level))
	now := r.now()
	sent := now - l.Age
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.least = min(r.mu.least, l.Remaining)
	if n := len(r.mu.proofs); n > 0 && sent < r.mu.proofs[n-1].sent+rounding {
		return
	}
	r.mu.all++
	if l.Remaining < lease.Term(r.timeout)-l.Age-rounding {
		r.mu.shortened++
	}
	r.mu.proofs = append(r.mu.proofs, sighting{sent, now})
	if n := len(r.mu.proofs); n > 2*proofsKept {
		r.mu.proofs = append(r.mu.proofs[:0], r.mu.proofs[n-proofsKept:]...)
	}
}

// proofsKept is how many proofs a record keeps at least: those of the last minutes.
const proofsKept = 1000

// oldRuleLost reports whether the old rule would have ended a hold too that was lost at that time: whether two thirds of the
// timeout passed between a proof and the moment at which the next one was seen. A loss may be noticed a little late.
func oldRuleLost(timeout time.Duration, proofs []sighting, lost time.Duration) bool {
	for i, p := range proofs {
		end := p.sent + lease.Term(timeout)
		if p.seen > lost || i+1 < len(proofs) && proofs[i+1].seen < lost-timeout/4 {
			continue
		}
		if i+1 == len(proofs) || proofs[i+1].seen >= end {
			return true
		}
	}
	return false
}
