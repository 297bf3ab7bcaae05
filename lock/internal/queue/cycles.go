package queue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A Wait is one contender that waits for another. Its owner may hold other locks meanwhile, by other nodes.
type Wait struct {
	Path   string    // of the lock
	Waiter Contender // that waits in its queue
	For    Contender // ahead in the same queue, that it waits for; a holder, or one that waits itself
}

// A Deadlock is a cycle of waits, as lock.Deadlock says. Either For is itself the Waiter of the next wait, or it holds the lock, and
// its owner waits elsewhere as that Waiter. Where the cycle goes through a semaphore, For is one of several that are all stuck.
type Deadlock []Wait

func (d Deadlock) String() string {
	waits := make([]string, len(d))
	for i, w := range d {
		waits[i] = fmt.Sprintf("%s waits for %s behind %s", describe(w.Waiter), w.Path, describe(w.For))
	}
	return strings.Join(waits, "; ")
}

func describe(c Contender) string { return fmt.Sprintf("%s [%s]", c.Describe(), zk.Base(c.Node)) }

// An Entry is all claims of one attempt in one queue: they are granted together, and go together.
type Entry struct {
	HoldID    string
	Dir       string
	Under     []string // hold ids of what its owner holds while it waits
	Yields    bool     // it gives up if it is the youngest of a cycle
	Passes    bool     // it leaves at once if it is not granted at once
	Contender Contender

	queue       *ReadQueue
	mode        Mode
	first, last int // places of its claims
}

// A ReadQueue is a queue as it was read, with what the data of its claims says.
type ReadQueue struct {
	Queue   Queue    // its number of permits is 0 if that is not known for certain
	Of      []*Entry // the entry of each claim of the queue
	Entries []*Entry // in the order of their first claims
}

// NewReadQueue returns the queue q, where of has the entry of each claim.
func NewReadQueue(q Queue, of []*Entry) *ReadQueue {
	r := &ReadQueue{Queue: q, Of: of}
	for i, e := range of {
		if e.queue == nil {
			e.queue, e.first, e.mode = r, i, q.Claims[i].Mode
			r.Entries = append(r.Entries, e)
		}
		e.last = i
	}
	return r
}

// Find returns the entry with that hold id, nil if it is not in the queue.
func (r *ReadQueue) Find(id string) *Entry {
	for _, e := range r.Entries {
		if e.HoldID == id {
			return e
		}
	}
	return nil
}

// mayWaitFor reports whether other is ahead of e in its queue, and of a mode that e waits for: for a permit, if enough are ahead.
func (e *Entry) mayWaitFor(other *Entry) bool {
	claims := e.queue.Queue.Claims
	return e != other && Before(claims[other.first].Number, claims[e.first].Number) && rivals(e.mode, other.mode)
}

// isBlocked reports whether e cannot be granted as long as the entries ahead of it stay for which stuck is true.
func (e *Entry) isBlocked(stuck func(*Entry) bool) bool {
	claims, permits := 0, 1
	if e.mode == Permit {
		claims, permits = e.last-e.first, e.queue.Queue.Permits // its own that are ahead of its last are claims too
	}
	for i := e.first - 1; i >= 0 && claims < permits; i-- {
		if by := e.queue.Of[i]; e.mayWaitFor(by) && stuck(by) {
			claims++
		}
	}
	return permits > 0 && claims >= permits
}

// Waits reports whether e stands in the queue and is not granted.
func (e *Entry) Waits() bool { return !e.Passes && e.isBlocked(func(*Entry) bool { return true }) }

// rivals reports whether a claim of one mode may have to wait for a claim of the other.
func rivals(a, b Mode) bool {
	const alone = Permit | Candidacy // stand in queues of their own
	if (a|b)&alone != 0 {
		return a == b
	}
	return conflict(a, b)
}

// A CycleFinder finds contenders that each can go on only after another of them does. It is a pure function of the queues,
// which Load reads as they are needed: backwards, from an entry to those that wait for it or for what its owner holds. The
// reason is that the node of a waiter says what its owner holds, and that of a holder does not say what its owner waits for.
//
// A claim to a mutex or a read/write lock waits for all that it conflicts with ahead of it, so it is stuck if
// one of these is. A claim to one of N permits is stuck only if, of those ahead of it, N are.
//
// Guarantees:
//  1. the entries of a cycle that it returns are not granted, and none of them can be before one of those that keep the
//     cycle closed gives up its claim or what it holds;
//  2. a cycle through Self is found if all that keep it closed wait, however far, for Self.
type CycleFinder struct {
	Load func(dir string) (*ReadQueue, error)
	Skip func(*Entry) bool // entries that are not to be taken for waiting; never Self
	Self *Entry

	reached []*Entry            // entries that may wait for Self, and what these hold; Self first
	waits   map[*Entry]bool     // of these, the ones that wait for a stuck one
	held    map[string][]*Entry // by hold id of what is held: the entries of waits whose owner holds it
}

// Cycle returns a shortest cycle of waits through Self, nil if there is none.
func (f *CycleFinder) Cycle() (Deadlock, error) {
	if err := f.reach(); err != nil {
		return nil, err
	}
	for stable := false; !stable; {
		stable = true
		for _, e := range f.reached {
			if f.waits[e] && !e.isBlocked(f.stuck) { // it does not wait for a stuck one
				delete(f.waits, e)
				for _, id := range e.Under {
					f.held[id] = slices.DeleteFunc(f.held[id], func(other *Entry) bool { return other == e })
				}
				stable = false
			}
		}
	}
	if !f.waits[f.Self] {
		return nil, nil
	}
	return f.shortestCycle(), nil
}

// stuck reports whether an entry waits, or is held while its owner waits.
func (f *CycleFinder) stuck(e *Entry) bool { return f.waits[e] || len(f.held[e.HoldID]) > 0 }

// reach finds the entries that may be part of a cycle with Self: at first, all that are not granted wait.
func (f *CycleFinder) reach() error {
	f.waits, f.held = map[*Entry]bool{}, map[string][]*Entry{}
	known := map[*Entry]bool{}
	add := func(e *Entry) {
		if !known[e] {
			known[e] = true
			f.reached = append(f.reached, e)
		}
	}
	add(f.Self)
	for i := 0; i < len(f.reached); i++ { // which grow meanwhile
		e := f.reached[i]
		read, err := f.Load(e.Dir)
		if err != nil {
			return err
		}
		for _, other := range read.Entries {
			if other.mayWaitFor(e) && !f.Skip(other) {
				add(other)
			}
		}
		if f.Skip(e) || !e.Waits() {
			continue
		}
		f.waits[e] = true
		for _, id := range e.Under {
			read, err := f.Load(zk.Parent(id))
			if err != nil {
				return err
			}
			if holder := read.Find(id); holder != nil && !holder.Waits() { // what waits is not held yet
				add(holder)
				f.held[id] = append(f.held[id], e)
			}
		}
	}
	return nil
}

// A step is one wait on the way around: the entry at its end waits, or holds what the one before waits for while it waits elsewhere.
type step struct {
	from *step
	e    *Entry
	by   *Entry // what from's entry waits for
}

// shortestCycle returns the waits of a shortest way from Self to Self; nil if those that keep Self waiting do not wait for it.
func (f *CycleFinder) shortestCycle() Deadlock {
	seen := map[*Entry]bool{}
	for steps := []*step{{e: f.Self}}; len(steps) > 0; steps = steps[1:] {
		at := steps[0]
		for _, by := range slices.Backward(at.e.queue.Of[:at.e.first]) { // the nearest first
			if !at.e.mayWaitFor(by) {
				continue
			}
			for _, e := range append([]*Entry{by}, f.held[by.HoldID]...) {
				s := &step{from: at, e: e, by: by}
				switch {
				case !f.waits[e] || seen[e]:
				case e == f.Self:
					return s.waits()
				default:
					seen[e] = true
					steps = append(steps, s)
				}
			}
		}
	}
	return nil
}

// waits returns the waits that lead to the step, the first one first.
func (s *step) waits() Deadlock {
	var d Deadlock
	for ; s.from != nil; s = s.from {
		d = append(d, Wait{Path: s.from.e.Dir, Waiter: s.from.e.Contender, For: s.by.Contender})
	}
	slices.Reverse(d)
	return d
}

// YoungerThan reports whether the claims of the entry were made after those of other.
func (e *Entry) YoungerThan(other *Entry) bool { return e.Contender.Token > other.Contender.Token }

// YieldsBefore reports whether the entry gives up if it and other are in one cycle.
func (e *Entry) YieldsBefore(other *Entry) bool { return e.Yields && e.YoungerThan(other) }
