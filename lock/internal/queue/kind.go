package queue

import "slices"

// A Kind says what a lock is, as its znodes tell.
type Kind string

// The kinds of locks. What several of them share, such as a path where a mutex and read/write locks exclude
// each other, is named after the contenders that are there.
const (
	KindNone             Kind = ""                  // nothing is there, or no contender whose znode would tell
	KindMutex            Kind = "mutex"             // Mutex, and those of Curator, go-zookeeper and kazoo
	KindReadWrite        Kind = "read-write"        // RWMutex, Curator's and kazoo's
	KindSemaphore        Kind = "semaphore"         // Semaphore of NewSemaphore
	KindCuratorSemaphore Kind = "curator-semaphore" // Semaphore of NewCuratorSemaphore, and Curator's
	KindElection         Kind = "election"          // candidates of a leader latch, ours and Curator's
	KindUnfair           Kind = "unfair"            // Unfair
)

// Where Curator's semaphore has its znodes, below its path.
const (
	LeasesName = "leases"
	GateName   = "locks"
)

// KindOf tells what a directory is from the names in it, and how many permits are stored with it.
func KindOf(names []string, permits int) Kind {
	var kinds ClaimKind
	rw := false
	for _, name := range names {
		_, k, ok := ParseName(name)
		if ok {
			kinds |= k
			rw = rw || k == Shared || MayMove(name)
		}
	}
	switch {
	case kinds&Permit != 0:
		return KindSemaphore
	case rw:
		return KindReadWrite
	case kinds&Exclusive != 0:
		return KindMutex
	case kinds&Candidacy != 0:
		return KindElection
	case permits > 0: // and there is no contender just now
		return KindSemaphore
	case slices.Contains(names, LeasesName):
		return KindCuratorSemaphore
	}
	return KindNone
}
