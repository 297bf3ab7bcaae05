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

// A Deadlock is a cycle of waits: the For of each cannot go on before the next wait is over, and the For of the last not
// before the first is. Either For is itself the Waiter of the next wait, or it holds the lock, and its owner waits elsewhere
// as that Waiter. Where the cycle goes through a semaphore, For is one of several that are all stuck.
type Deadlock []Wait

func (d Deadlock) String() string {
	var b strings.Builder
	for i, w := range d {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s waits for %s behind %s", describe(w.Waiter), w.Path, describe(w.For))
	}
	return b.String()
}

func describe(c Contender) string { return fmt.Sprintf("%s [%s]", c.Describe(), zk.Base(c.Node)) }

// An Entry is all claims of one attempt in one queue: they are granted together, and go together.
type Entry struct {
	HoldID    string
	Dir       string
	Under     []string // hold ids of what its owner holds while it waits
	Czxid     int64    // of its nodes
	Yields    bool     // it gives up if it is the youngest of a cycle
	Passes    bool     // it leaves at once if it is not granted at once
	Contender Contender

	Kind        ClaimKind
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
	l := &ReadQueue{Queue: q, Of: of}
	for i, p := range of {
		if i == 0 || !slices.Contains(of[:i], p) {
			p.first, p.Kind = i, q.Claims[i].Kind
			l.Entries = append(l.Entries, p)
		}
		p.last = i
	}
	return l
}

// Find returns the entry with that hold id, nil if it is not in the queue.
func (l *ReadQueue) Find(id string) *Entry {
	for _, p := range l.Entries {
		if p.HoldID == id {
			return p
		}
	}
	return nil
}

// mayWaitFor reports whether p has to wait for other, or has while too many like it are there.
func (l *ReadQueue) mayWaitFor(p, other *Entry) bool {
	return p != other && Before(l.Queue.Claims[other.first].Number, l.Queue.Claims[p.first].Number) && rivals(p.Kind, other.Kind)
}

// isBlocked reports whether p cannot be granted as long as the entries ahead of it stay for which stuck is true.
func (l *ReadQueue) isBlocked(p *Entry, stuck func(*Entry) bool) bool {
	claims := p.last - p.first // its own that are ahead of its last
	permits := 1
	if p.Kind == Permit {
		permits = l.Queue.Permits
	} else {
		claims = 0
	}
	for i := p.first - 1; i >= 0 && claims < permits; i-- {
		if l.mayWaitFor(p, l.Of[i]) && stuck(l.Of[i]) {
			claims++
		}
	}
	return permits > 0 && claims >= permits
}

// Waits reports whether p stands in the queue and is not granted.
func (l *ReadQueue) Waits(p *Entry) bool {
	return !p.Passes && l.isBlocked(p, func(*Entry) bool { return true })
}

// rivals reports whether a claim of one kind may have to wait for a claim of the other.
func rivals(a, b ClaimKind) bool {
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
	Skip func(*Entry) bool // entries that are not to be taken for waiting
	Self *Entry

	queues  map[string]*ReadQueue
	reached []*Entry            // entries that may wait for Self, and what these hold; Self first
	waits   map[*Entry]bool     // of these, the ones that wait for a stuck one
	holds   map[*Entry][]string // hold ids of what the owner of each holds, of those that wait
	held    map[string][]*Entry // by hold id of what is held: the entries of waits whose owner holds it
}

// Cycle returns a shortest cycle of waits through Self, nil if there is none.
func (k *CycleFinder) Cycle() (Deadlock, error) {
	if err := k.reach(); err != nil {
		return nil, err
	}
	for settled := false; !settled; {
		settled = true
		k.held = map[string][]*Entry{}
		for _, p := range k.reached {
			if k.waits[p] {
				for _, id := range k.holds[p] {
					k.held[id] = append(k.held[id], p)
				}
			}
		}
		for _, p := range k.reached {
			if k.waits[p] && !k.queues[p.Dir].isBlocked(p, k.stuck) {
				delete(k.waits, p)
				settled = false
			}
		}
	}
	if !k.waits[k.Self] {
		return nil, nil
	}
	return k.shortestCycle(), nil
}

// stuck reports whether an entry waits, or is held while its owner waits.
func (k *CycleFinder) stuck(p *Entry) bool { return k.waits[p] || len(k.held[p.HoldID]) > 0 }

// reach finds the entries that may be part of a cycle with Self: at first, all that are not granted wait.
func (k *CycleFinder) reach() error {
	k.queues, k.waits, k.holds = map[string]*ReadQueue{}, map[*Entry]bool{}, map[*Entry][]string{}
	known := map[*Entry]bool{}
	add := func(p *Entry) {
		if !known[p] {
			known[p] = true
			k.reached = append(k.reached, p)
		}
	}
	add(k.Self)
	for i := 0; i < len(k.reached); i++ { // which grow meanwhile
		p := k.reached[i]
		read, err := k.Load(p.Dir)
		if err != nil {
			return err
		}
		k.queues[p.Dir] = read
		for _, other := range read.Entries {
			if read.mayWaitFor(other, p) && (other == k.Self || !k.Skip(other)) {
				add(other)
			}
		}
		if p != k.Self && k.Skip(p) || !read.Waits(p) {
			continue
		}
		k.waits[p] = true
		for _, id := range p.Under {
			read, err := k.Load(zk.Parent(id))
			if err != nil {
				return err
			}
			if holder := read.Find(id); holder != nil && !read.Waits(holder) { // what waits is not held yet
				add(holder)
				k.holds[p] = append(k.holds[p], id)
			}
		}
	}
	return nil
}

// A step is one wait on the way around: the entry at its end waits, or holds what the one before waits for
// while it waits elsewhere.
type step struct {
	from *step
	p    *Entry
	by   *Entry // what from's entry waits for
}

// shortestCycle returns the waits of a shortest way from Self to Self; nil if those that keep Self waiting do not wait for it.
func (k *CycleFinder) shortestCycle() Deadlock {
	seen := map[*Entry]bool{}
	for steps := []*step{{p: k.Self}}; len(steps) > 0; steps = steps[1:] {
		at := steps[0]
		read := k.queues[at.p.Dir]
		for i := at.p.first - 1; i >= 0; i-- { // the nearest first
			by := read.Of[i]
			if !read.mayWaitFor(at.p, by) || !k.stuck(by) {
				continue
			}
			next := k.held[by.HoldID]
			if k.waits[by] {
				next = append([]*Entry{by}, next...)
			}
			for _, p := range next {
				s := &step{from: at, p: p, by: by}
				if p == k.Self {
					return s.waits()
				}
				if !seen[p] {
					seen[p] = true
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
		d = append(d, Wait{Path: s.from.p.Dir, Waiter: s.from.p.Contender, For: s.by.Contender})
	}
	slices.Reverse(d)
	return d
}

// YoungerThan reports whether the claims of the entry were made after those of other.
func (p *Entry) YoungerThan(other *Entry) bool { return p.Czxid > other.Czxid }

// YieldsBefore reports whether the entry gives up if it and other are in one cycle.
func (p *Entry) YieldsBefore(other *Entry) bool { return p.Yields && p.YoungerThan(other) }
