package client

import (
	"context"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
)

// What the tests of this package's surface have to reach below it.

// SetXid makes the next request carry the xid behind xid.
func SetXid(s *Session, xid int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.xid = xid
}

// Leftovers is what a session keeps in memory for others.
type Leftovers struct{ Queued, InFlight, Spots, Persistent, Dependents int }

// LeftoversOf counts what s keeps.
func LeftoversOf(s *Session) Leftovers {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := Leftovers{Queued: len(s.mu.queue), Spots: len(s.watches.spots), Persistent: len(s.watches.persistent), Dependents: s.mu.dependents}
	if c := s.mu.conn; c != nil {
		for _, k := range c.sent {
			if k.xid > 0 {
				l.InFlight++
			}
		}
	}
	return l
}

// WatchEventsMax is how many events wait for a persistent watch's reader.
const WatchEventsMax = watchEventsMax

// SentByCallers returns how often callers have written to the present connection by themselves.
func SentByCallers(s *Session) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn == nil {
		return 0
	}
	return s.mu.conn.out.inline
}

// What package lock does with a session over internal/bridge.

func (s *Session) Vouch(level Vouch) vouching {
	bridge.Of(s).Vouch(int(level), 1)
	return vouching{s, level}
}

// A vouching asks for heartbeats of a level until it is stopped.
type vouching struct {
	s     *Session
	level Vouch
}

func (v vouching) Stop()                                         { bridge.Of(v.s).Vouch(int(v.level), -1) }
func (s *Session) Age(level Vouch) time.Duration                 { return bridge.Of(s).Lease(int(level)).Age }
func (s *Session) Lease(level Vouch) Lease                       { return bridge.Of(s).Lease(int(level)) }
func (s *Session) Listen(ctx context.Context, watches ...*Watch) { bridge.Of(s).Listen(ctx, watches) }
func (w *Watch) Conn() uint64                                    { return w.connection() }
func (p *Pending[T]) Conn() uint64                               { return p.connection() }

// A Lease is bridge.Lease.
type Lease = bridge.Lease

// FailWrites has the connection of s be as after a write that has failed, until its goroutines have noticed.
func FailWrites(s *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.conn.out.err = os.ErrDeadlineExceeded
}
