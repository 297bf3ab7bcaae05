package queue

import "strings"

// Rules make a kind of lock of a queue: how its claims are named, which claims stand in its queue, and for which of them a
// claim has to wait. Permits, a gate and downgrades are all else that fair locks differ in.
type Rules struct {
	Verb  string // what its Lock is called in errors
	Word  string // in the names of its claims; see name.go
	Mode  Mode   // of its claims
	Heeds Mode   // the modes of the claims that stand in its queue; all others in the directory are passed over
}

var (
	MutexRules  = Rules{Verb: "lock", Word: LockWord, Mode: Exclusive, Heeds: Exclusive | Shared}
	WriteRules  = Rules{Verb: "lock", Word: writeWord, Mode: Exclusive, Heeds: Exclusive | Shared}
	ReadRules   = Rules{Verb: "read lock", Word: ReadWord, Mode: Shared, Heeds: Exclusive | Shared}
	PermitRules = Rules{Verb: "acquire", Word: PermitWord, Mode: Permit, Heeds: Permit}
)

// ElectionRules are those of a mutex with the names of Curator's LeaderLatch. Only candidates stand in its queue: other
// claims in the directory neither wait for them nor are waited for.
var ElectionRules = Rules{Verb: "lock", Word: latchWord, Mode: Candidacy, Heeds: Candidacy}

// UnfairRules are those of a lock without a queue: its claim has no word, and waits for none.
var UnfairRules = Rules{Verb: "lock", Mode: Exclusive, Heeds: Exclusive}

// Reenters reports whether Lock under a hold's context returns another hold of the same node, and takes no second place in the
// queue. A semaphore gives another permit, and an election another candidacy.
func (r *Rules) Reenters() bool { return r.Mode&(Exclusive|Shared) != 0 }

// Moves reports whether a holder may let another node take the place of its own (Hold.Downgrade). When its node goes, such a
// holder may still hold the lock; only the release marker tells that it has left.
func (r *Rules) Moves() bool { return r.Word == writeWord }

// mayMove reports whether the holder of the claim called name may have let a shared claim take its place.
func mayMove(name string) bool { return strings.Contains(name, writeWord) }

// WaitsFor returns the places of claims that the one at place has to wait for, none if it is granted. It looks at no claim behind
// place. It need not return all: while those that it returns are there, the claim is not granted; when one leaves, it is called again.
func (r *Rules) WaitsFor(q Queue, place int) []int {
	if r.Mode == Permit {
		return waitForPermits(q, place)
	}
	return waitForConflict(q, place)
}

// waitForConflict is the rule of mutexes and read/write locks: a claim waits for the nearest claim ahead that it cannot
// share the lock with. That one waits for those further ahead.
func waitForConflict(q Queue, place int) []int {
	for i := place - 1; i >= 0; i-- {
		if conflict(q.Claims[i].Mode, q.Claims[place].Mode) {
			return []int{i}
		}
	}
	return nil
}

// waitForPermits is the rule of semaphores: a claim is granted if fewer claims are ahead than there are permits. Otherwise
// it waits for the nearest ones ahead, as many as there are permits: as long as all of these are there, no permit is free.
// If claims leave in the order in which they came, each one that leaves wakes the one waiter whose turn it is.
//
// To watch fewer than N is not enough. Take a waiter with m >= N claims ahead that watches only N-1 of them. The others leave
// first and it hears nothing. Now N-1 claims are ahead, and it waits beside a free permit. With N waiters these are N(N+1)/2
// watches on N holders, so (N+1)/2 waiters are woken in the mean. The nearest claims are the best choice: they fall
// least on the oldest holders, which are the likeliest to leave. A waiter that wants k permits watches N-k+1.
//
// Four cheaper schemes fail. Only the first waiter watches holders, and the others watch the waiter ahead: a granted claim stays in
// place, so the next waiter does not hear that it is first now. Each waiter watches the one claim N places ahead: another permit comes
// back and it does not hear. The holder that leaves names the next one: that costs a listing and write permission on claims of others,
// and a holder that dies names none. A mutex is held while waiting, as in Curator: that costs two more transactions for each permit.
func waitForPermits(q Queue, place int) []int {
	if place < q.Permits {
		return nil
	}
	waits := make([]int, 0, q.Permits)
	for i := place - 1; i >= place-q.Permits; i-- {
		waits = append(waits, i)
	}
	return waits
}

// conflict reports whether two claims cannot hold the lock at once.
func conflict(a, b Mode) bool { return a != Shared || b != Shared }

// FreedBy reports whether the claim at place, which waits for the claim at ended, is granted, unlisted, once that one's node is deleted.
//
// If the holder has made its release marker (announced), the claim at ended held the lock. So every claim ahead of it that it conflicts
// with has left, with one exception: ahead of a reader, a writer may have downgraded instead, and still read. Take a writer 1 that may have
// downgraded, a reader 2 and a writer 3: when 2 releases, 3 is not granted.
func (r *Rules) FreedBy(q Queue, ended, place int, announced bool) bool {
	if r.Mode == Permit {
		return place <= q.Permits
	}
	gone := q.Claims[ended]
	for i, c := range q.Claims[:place] {
		hasLeft := i == ended || announced && i < ended && conflict(c.Mode, gone.Mode)
		mayRead := mayMove(c.Name) && (i == ended && !announced || i < ended && gone.Mode == Shared) // by a downgrade instead
		switch {
		case hasLeft && !mayRead:
			continue
		case hasLeft:
			c.Mode = Shared
		}
		if conflict(c.Mode, q.Claims[place].Mode) {
			return false
		}
	}
	return true
}

// NeedsReleaseMarker reports whether a holder has to announce its release. It does if it has waited: a contender that listed the queue
// then cannot tell from the deletion whether a holder has released or a waiter has died. It does if its claim could be downgraded and
// was not: the deletion alone could be a downgrade. A semaphore's does not: there the claims ahead of a holder need not have gone.
func (r *Rules) NeedsReleaseMarker(waited, downgraded bool) bool {
	return r.Mode != Permit && (waited || r.Moves() && !downgraded)
}
