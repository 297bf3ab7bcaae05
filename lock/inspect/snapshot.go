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

	// Contenders are in the order in which they came. If a directory is in use as several kinds of locks, all are here, and Held
	// and Place of each are those in the queue of its kind. Of an unfair lock only the holder is known: its waiters have no znode.
	Contenders []Contender
}

// Holders returns the contenders that hold the lock: one, or all readers, or all that have a permit, or the leader.
func (s Snapshot) Holders() []Contender { return s.pick(true) }

// Waiters returns the contenders that wait, in order.
func (s Snapshot) Waiters() []Contender { return s.pick(false) }

func (s Snapshot) pick(held bool) []Contender {
	return slices.DeleteFunc(slices.Clone(s.Contenders), func(c Contender) bool { return c.Held != held })
}

// assign sets Place and Held of a directory's contenders: where each stands in the queue of its kind, and whether it holds
// the lock by the rules that grant it. permits is 0 if it is not known, and then all of a semaphore's contenders hold it.
func assign(permits int, all []Contender) {
	names, called := make([]string, len(all)), make(map[string]*Contender, len(all))
	for i := range all {
		names[i] = zk.Base(all[i].Node)
		called[names[i]] = &all[i]
	}
	// The queues that one directory can have: claims in one do not heed those in another.
	for _, rules := range []*queue.Rules{&queue.MutexRules, &queue.PermitRules, &queue.ElectionRules} {
		q := queue.Parse(names, rules.Heeds)
		q.Permits = permits
		for place, claim := range q.Claims {
			last := place
			if id, ok := queue.IDOf(claim.Name); ok && rules.Mode == queue.Permit && place < permits {
				last = slices.Max(q.PlacesOf(id)) // all permits of an attempt are granted together: when there is one for the last
			}
			c := called[claim.Name]
			c.Place, c.Held = place, len(rules.WaitsFor(q, last)) == 0
		}
	}
}

// joinGate puts the contenders at the gate of Curator's semaphore behind those in its queue. The first at the gate is the one that
// may join the queue, and stays at the gate until it is granted: if its claim is there already, that is the last one.
func joinGate(queued, gate []Contender) []Contender {
	if len(gate) > 0 && len(queued) > 0 {
		if last := &queued[len(queued)-1]; last.Session == gate[0].Session && last.Token > gate[0].Token {
			last.Held, gate = false, gate[1:]
		}
	}
	for _, c := range gate {
		c.Held, c.Place = false, len(queued)
		queued = append(queued, c)
	}
	return queued
}
