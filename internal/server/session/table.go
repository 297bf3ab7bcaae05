package session

import (
	"iter"
	"slices"
	"time"
)

// NoOwner is the owner of a session to which no connection has been attached since the restart.
const NoOwner uint64 = 0

// A Table is the set of sessions. Guarantees:
//
//  1. a session has at most one owner: the connection attached last;
//  2. a session that is closing never becomes anything else: no touch, no attachment and no
//     request brings it back;
//  3. Expire names a session at most once;
//  4. what a session has shown stays until it is removed.
//
// It is not safe for concurrent use, except for Deadline.
type Table struct {
	tick     time.Duration
	sessions map[int64]*session
	buckets  map[time.Duration]*session // head of the list of those that expire then; no empty lists
}

type session struct {
	id      int64
	first   time.Duration // timeout granted at its creation, which is what disks remember
	granted time.Duration // by the latest attachment
	timeout time.Duration // what counts: granted, or what counted before if that is longer and the client has not been heard since
	owner   uint64
	closing bool // and in no bucket
	shown   []Proof

	expires    time.Duration // its bucket
	prev, next *session      // in the bucket; the head's prev is nil
}

// NewTable returns an empty table whose sessions expire at multiples of tick.
func NewTable(tick time.Duration) *Table {
	return &Table{
		tick:     max(tick, 1),
		sessions: make(map[int64]*session),
		buckets:  make(map[time.Duration]*session),
	}
}

// Deadline is when a session with this timeout expires if nothing is heard of it after now: the
// first multiple of the tick that is later than now+timeout. It depends on nothing else, so that a
// caller can leave out a Touch if it has not moved.
func (t *Table) Deadline(now, timeout time.Duration) time.Duration {
	return ((now+timeout)/t.tick + 1) * t.tick
}

// Add puts in a session that must not be there yet: a new one with its owner, or, with NoOwner,
// one that a restart found on disk, which thereby has its full timeout again.
func (t *Table) Add(id int64, timeout time.Duration, owner uint64, now time.Duration) {
	s := &session{id: id, first: timeout, granted: timeout, timeout: timeout, owner: owner}
	t.sessions[id] = s
	t.schedule(s, now)
}

// Attach makes owner the owner of a session and grants it a new timeout. A shorter one counts from the first Touch on: the
// client may not get the answer that tells of it, and then believes in the longer one. It reports false, and changes nothing,
// if the session is not there or closing. The previous owner is returned so that its connection can be notified.
func (t *Table) Attach(id int64, timeout time.Duration, owner uint64, now time.Duration) (previous uint64, ok bool) {
	s := t.sessions[id]
	if s == nil || s.closing {
		return NoOwner, false
	}
	previous, s.owner, s.granted, s.timeout = s.owner, owner, timeout, max(s.timeout, timeout)
	t.unschedule(s)
	t.schedule(s, now)
	return previous, true
}

// A Proof is a hash of an identity that a client has shown.
type Proof [32]byte

// Show notes identities that the session has shown through owner. It changes nothing if that is not its owner.
func (t *Table) Show(id int64, owner uint64, proofs []Proof) {
	if !t.Owns(id, owner) {
		return
	}
	s := t.sessions[id]
	for _, p := range proofs {
		if !slices.Contains(s.shown, p) {
			s.shown = append(s.shown, p)
		}
	}
}

// Missing reports whether the session is alive and has shown an identity that is not among these.
func (t *Table) Missing(id int64, proofs []Proof) bool {
	s := t.sessions[id]
	return s != nil && !s.closing && slices.ContainsFunc(s.shown, func(p Proof) bool { return !slices.Contains(proofs, p) })
}

// Renew notes that a session's client is alive, though not through which connection: it is asking
// for another one, or cannot be heard at the moment. It changes nothing if the session is not alive.
func (t *Table) Renew(id int64, now time.Duration) {
	if s := t.sessions[id]; s != nil && !s.closing {
		t.move(s, now)
	}
}

// Touch notes that something was heard of a session through owner. It reports false, and changes
// nothing, if that is not (any more) the session's owner or the session is not alive. The first one after Attach may make the
// session expire earlier.
func (t *Table) Touch(id int64, owner uint64, now time.Duration) bool {
	if !t.Owns(id, owner) {
		return false
	}
	s := t.sessions[id]
	s.timeout = s.granted // the client knows of it, since it uses the connection
	t.move(s, now)
	return true
}

// Owns reports whether the session is alive and owner its owner: whether a request that came
// through owner may be executed.
func (t *Table) Owns(id int64, owner uint64) bool {
	s := t.sessions[id]
	return s != nil && !s.closing && s.owner == owner
}

// Owner returns the owner of a session, be it closing or not.
func (t *Table) Owner(id int64) uint64 {
	if s := t.sessions[id]; s != nil {
		return s.owner
	}
	return NoOwner
}

// Expiry returns when a session expires if nothing more is heard of it. It reports false if it is
// not there or closing.
func (t *Table) Expiry(id int64) (at time.Duration, ok bool) {
	if s := t.sessions[id]; s != nil && !s.closing {
		return s.expires, true
	}
	return 0, false
}

// BeginClose marks a session as closing. It reports false if it is not there or was closing
// already.
func (t *Table) BeginClose(id int64) bool {
	s := t.sessions[id]
	if s == nil || s.closing {
		return false
	}
	t.unschedule(s)
	s.closing = true
	return true
}

// Remove forgets a session.
func (t *Table) Remove(id int64) {
	t.BeginClose(id)
	delete(t.sessions, id)
}

// Expire marks as closing all sessions whose time has come, and returns them.
func (t *Table) Expire(now time.Duration) []int64 {
	var dead []int64
	for at, s := range t.buckets {
		if at > now {
			continue
		}
		for s != nil {
			next := s.next
			s.closing, s.prev, s.next = true, nil, nil
			dead = append(dead, s.id)
			s = next
		}
		delete(t.buckets, at)
	}
	return dead
}

// NextExpiry returns the earliest moment at which a session may expire. It reports false if none
// is alive.
func (t *Table) NextExpiry() (at time.Duration, ok bool) {
	for b := range t.buckets {
		if !ok || b < at {
			at, ok = b, true
		}
	}
	return at, ok
}

// Len returns how many sessions there are, closing ones included.
func (t *Table) Len() int { return len(t.sessions) }

// All yields the sessions, closing ones included, with the timeouts they were first granted.
func (t *Table) All() iter.Seq2[int64, time.Duration] {
	return func(yield func(int64, time.Duration) bool) {
		for id, s := range t.sessions {
			if !yield(id, s.first) {
				return
			}
		}
	}
}

func (t *Table) schedule(s *session, now time.Duration) {
	s.expires = t.Deadline(now, s.timeout)
	s.prev, s.next = nil, t.buckets[s.expires]
	if s.next != nil {
		s.next.prev = s
	}
	t.buckets[s.expires] = s
}

func (t *Table) move(s *session, now time.Duration) {
	if t.Deadline(now, s.timeout) != s.expires {
		t.unschedule(s)
		t.schedule(s, now)
	}
}

func (t *Table) unschedule(s *session) {
	if s.next != nil {
		s.next.prev = s.prev
	}
	switch {
	case s.prev != nil:
		s.prev.next = s.next
	case s.next != nil:
		t.buckets[s.expires] = s.next
	default:
		delete(t.buckets, s.expires)
	}
	s.prev, s.next = nil, nil
}
