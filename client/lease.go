package client

import (
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

func (b lockSession) Vouch(level, more int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.demand[Vouch(level).strength()] += more
	if c := b.mu.conn; c != nil {
		proves, interval := c.rhythmLocked()
		if c.out.look.After(c.lastBeat[proves].Add(interval)) { // the next heartbeat is due before the writer looks
			tell(b.wake)
		}
	}
}

// A sessionLease is what the answered requests of one level amount to. Guarded by Session.mu.
type sessionLease struct {
	lease  lease.Lease
	newest clock.Instant // when the newest proof was sent; zero once the session is over
	number uint64        // of the lease: it changes when a proof comes after the end of the lease before
}

func (b lockSession) Lease(level int) bridge.Lease {
	now := b.opt.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.mu.leases[Vouch(level).strength()]
	age := now.Sub(l.newest) // for ever once the session is over
	return bridge.Lease{
		At:        now,
		Age:       age,
		Remaining: l.lease.Remaining(b.mu.timeout, age),
		Number:    l.number,
		ReadyIn:   b.mu.history.ReadyIn(b.mu.timeout, now),
	}
}

// noteProofLocked records an answered request that proves p: when it was sent, and when the answer had come.
func (s *Session) noteProofLocked(p strength, sent, answered clock.Instant) {
	if p == provesNothing {
		return
	}
	s.mu.history.Add(s.mu.timeout, sent, answered)
	if l := s.mu.history.Lease(s.mu.timeout, sent); l.Valid() {
		s.renewLeasesLocked(p, sent, answered, l)
	}
}

// renewLeasesLocked renews the leases of level p and of those below, by an answered request as noteProofLocked has it.
func (s *Session) renewLeasesLocked(p strength, sent, answered clock.Instant, renewed lease.Lease) {
	if s.mu.state.Phase.Final() {
		return
	}
	for i := range s.mu.leases[:p+1] {
		l := &s.mu.leases[i]
		if !sent.After(l.newest) {
			continue
		}
		if l.lease.Remaining(s.mu.timeout, answered.Sub(l.newest)) <= 0 {
			l.number++
		}
		l.lease, l.newest = renewed, sent
	}
}
