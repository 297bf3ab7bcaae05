package inspect

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Snapshot is a lock as it was found: its holders and its waiters. It takes several reads, between which
// contenders may come, go or be granted; each is shown as it was when it was read.
type Snapshot struct {
	Path string
	Kind Kind

	// Permits is the semaphore's number of permits; 0 if its znodes do not say, as Curator's never do. Then all in
	// its queue are shown as holders, except one that is known to be waiting still.
	Permits int

	// Contenders are in the order in which they came. If a directory is in use as several kinds of locks, all are
	// here, and Held and Place of each are those in the queue of its kind. Of an unfair lock only the holder is known:
	// its waiters have no znode.
	Contenders []Contender
}

// Holders returns the contenders that hold the lock: one, or all readers, or all that have a permit, or the leader.
func (s Snapshot) Holders() []Contender { return s.pick(true) }

// Waiters returns the contenders that wait, in order.
func (s Snapshot) Waiters() []Contender { return s.pick(false) }

func (s Snapshot) pick(held bool) []Contender {
	return slices.DeleteFunc(slices.Clone(s.Contenders), func(c Contender) bool { return c.Held != held })
}

// queues are the kinds of claims that stand in one queue. One directory can have several, which do not heed
// each other.
var queues = [...]queue.ClaimKind{queue.Exclusive | queue.Shared, queue.Permit, queue.Candidacy}

// assign sets Place and Held of a directory's contenders, which are in order: where each stands in the queue of its
// kind, and whether it holds the lock by the rules that grant it. permits is 0 if it is not known, and then all of a
// semaphore's contenders hold it.
func assign(permits int, all []Contender) {
	for _, heeds := range queues {
		q := queue.Queue{Permits: permits}
		var at []int // of the queue, in all
		for i, c := range all {
			name := zk.Base(c.Node)
			q.See(name, heeds)
			if len(q.Claims) > len(at) {
				at = append(at, i)
			}
		}
		for place, i := range at {
			all[i].Place = place
			if heeds == queue.Permit {
				all[i].Held = permits == 0 || place < permits && q.LastOf(place) < permits
			} else {
				all[i].Held = len(queue.WaitForConflict(q, place)) == 0
			}
		}
	}
}

// joinGate puts the contenders at the gate of Curator's semaphore behind those in its queue. The first at the gate is the
// one that may join the queue, and stays at the gate until it is granted: if its claim is
// there already, that is the last one.
func joinGate(queued, gate []Contender) []Contender {
	if len(gate) > 0 && len(queued) > 0 {
		if last := &queued[len(queued)-1]; last.Session == gate[0].Session && last.Token > gate[0].Token {
			last.Held = false
			gate = gate[1:]
		}
	}
	for _, c := range gate {
		c.Held, c.Place = false, len(queued)
		queued = append(queued, c)
	}
	return queued
}
