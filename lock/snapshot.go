package lock

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A Kind says what a lock is, as its znodes tell.
type Kind string

// The kinds of locks. What several of them share, such as a path where a mutex and read/write locks exclude
// each other, is called after whoever is there.
const (
	KindNone             Kind = ""                  // nothing is there, or nobody who would tell
	KindMutex            Kind = "mutex"             // Mutex, and those of Curator, go-zookeeper and kazoo
	KindReadWrite        Kind = "read-write"        // RWMutex, Curator's and kazoo's
	KindSemaphore        Kind = "semaphore"         // Semaphore of NewSemaphore
	KindCuratorSemaphore Kind = "curator-semaphore" // Semaphore of NewCuratorSemaphore, and Curator's
	KindElection         Kind = "election"          // candidates of a leader latch, ours and Curator's
	KindUnfair           Kind = "unfair"            // Unfair
)

// A Snapshot is a lock as it was found: who holds it, who waits for it. It takes several reads, between which
// contenders may come, go or be granted; each is shown as it was when it was read.
type Snapshot struct {
	Path string
	Kind Kind

	// Permits is the semaphore's number of permits; 0 if its znodes do not say, as Curator's never do. Then all in
	// its line are shown as holders, except one that is known to be waiting still.
	Permits int

	// Contenders are in the order in which they came. If a directory is in use as several kinds of locks, all are
	// here, and Held and Place of each are those in the line of its kind. Of an unfair lock only the holder is known:
	// those who wait for it have no znode.
	Contenders []Contender
}

// Holders returns those who hold the lock: one, or all readers, or whoever has a permit, or the leader.
func (s Snapshot) Holders() []Contender { return s.pick(true) }

// Waiters returns those who wait, in order.
func (s Snapshot) Waiters() []Contender { return s.pick(false) }

func (s Snapshot) pick(held bool) []Contender {
	return slices.DeleteFunc(slices.Clone(s.Contenders), func(c Contender) bool { return c.Held != held })
}

// Where Curator's semaphore has its znodes, below its path.
const (
	leasesName = "leases"
	gateName   = "locks"
)

// kindOf tells what a directory is from the names in it, and how many permits are stored with it.
func kindOf(names []string, permits int) Kind {
	var kinds kind
	rw := false
	for _, name := range names {
		_, k, ok := parseName(name)
		if ok {
			kinds |= k
			rw = rw || k == shared || mayMove(name)
		}
	}
	switch {
	case kinds&permit != 0:
		return KindSemaphore
	case rw:
		return KindReadWrite
	case kinds&exclusive != 0:
		return KindMutex
	case kinds&candidacy != 0:
		return KindElection
	case permits > 0: // and nobody wants one just now
		return KindSemaphore
	case slices.Contains(names, leasesName):
		return KindCuratorSemaphore
	}
	return KindNone
}

// lines are the kinds of claims that stand in one line. One directory can have several, which do not heed
// each other.
var lines = [...]kind{exclusive | shared, permit, candidacy}

// assign sets Place and Held of a directory's contenders, which are in order: where each stands in the line of its
// kind, and whether it holds the lock by the rules that grant it. permits is 0 if it is not known, and then all of a
// semaphore's contenders hold it.
func assign(permits int, all []Contender) {
	for _, heeds := range lines {
		q := queue{room: permits}
		var at []int // of the line, in all
		for i, c := range all {
			name := zk.Base(c.Node)
			if q.see(name, heeds); len(q.line) > len(at) {
				at = append(at, i)
			}
		}
		for place, i := range at {
			all[i].Place = place
			if heeds == permit {
				all[i].Held = permits == 0 || place < permits && q.last(place) < permits
			} else {
				all[i].Held = len(waitForConflict(q, place)) == 0
			}
		}
	}
}

// last returns the last place of the attempt that has made the claim at place. Several permits are granted
// together: when there is room for the last of them.
func (q queue) last(place int) int {
	name := q.line[place].name
	if !strings.HasPrefix(name, protectedPrefix) || len(name) < len(protectedPrefix)+attemptDigits {
		return place
	}
	all := q.mine(attemptID(name[len(protectedPrefix):][:attemptDigits]))
	if len(all) == 0 {
		return place
	}
	return all[len(all)-1]
}

// joinGate puts those who stand at the gate of Curator's semaphore behind those in its line. Whoever is first
// at the gate is the one that may join the line, and stays at the gate until it is granted: if its claim is
// there already, that is the last one.
func joinGate(line, gate []Contender) []Contender {
	if len(gate) > 0 && len(line) > 0 {
		if last := &line[len(line)-1]; last.Session == gate[0].Session && last.Token > gate[0].Token {
			last.Held = false
			gate = gate[1:]
		}
	}
	for _, c := range gate {
		c.Held, c.Place = false, len(line)
		line = append(line, c)
	}
	return line
}
