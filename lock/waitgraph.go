package lock

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A party is all claims of one attempt in one line: they are granted together, and go together.
type party struct {
	stem   string
	dir    string
	under  []string // stems of what its owner holds while it waits
	czxid  int64    // of its nodes
	yields bool     // it gives up if it is the youngest of a circle
	passes bool     // it does not wait
	who    Contender

	kind        kind
	first, last int // places of its claims
}

// A lineup is a line as it was read, with what its claims say.
type lineup struct {
	queue   queue    // its room is 0 if it is not known for certain
	of      []*party // whose each claim of the queue is
	parties []*party // in the order of their first claims
}

// newLineup returns the lineup of a queue whose claims are of those parties.
func newLineup(q queue, of []*party) *lineup {
	l := &lineup{queue: q, of: of}
	for i, p := range of {
		if i == 0 || !slices.Contains(of[:i], p) {
			p.first, p.kind = i, q.line[i].kind
			l.parties = append(l.parties, p)
		}
		p.last = i
	}
	return l
}

// find returns the party with that stem, nil if it is not in line.
func (l *lineup) find(stem string) *party {
	for _, p := range l.parties {
		if p.stem == stem {
			return p
		}
	}
	return nil
}

// mayWaitFor reports whether p has to wait for other, or has while too many like it are there.
func (l *lineup) mayWaitFor(p, other *party) bool {
	return p != other && before(l.queue.line[other.first].number, l.queue.line[p.first].number) && rivals(p.kind, other.kind)
}

// blocked reports whether p cannot be granted as long as those ahead of it stay for whom stuck is true.
func (l *lineup) blocked(p *party, stuck func(*party) bool) bool {
	claims := p.last - p.first // its own that are ahead of its last
	room := 1
	if p.kind == permit {
		room = l.queue.room
	} else {
		claims = 0
	}
	for i := p.first - 1; i >= 0 && claims < room; i-- {
		if l.mayWaitFor(p, l.of[i]) && stuck(l.of[i]) {
			claims++
		}
	}
	return room > 0 && claims >= room
}

// waits reports whether p stands in line and is not granted.
func (l *lineup) waits(p *party) bool {
	return !p.passes && l.blocked(p, func(*party) bool { return true })
}

// rivals reports whether a claim of one kind may have to wait for a claim of the other.
func rivals(a, b kind) bool {
	const alone = permit | candidacy // stand in lines of their own
	if (a|b)&alone != 0 {
		return a == b
	}
	return conflict(a, b)
}

// A knot is a set of contenders none of whom can go on before another of them does. It is a pure function of the
// lines, which load reads as they are needed: backwards, from a party to those who wait for it or for what
// its owner holds. Backwards, because the node of a waiter says what its owner holds, and that of a holder does not
// say what its owner waits for.
//
// A claim to a mutex or a read/write lock waits for all that it conflicts with ahead of it, so it is stuck if
// one of these is. A claim to one of N permits is stuck only if, of those ahead of it, N are.
//
// Guarantees:
//  1. the parties of a circle that it returns are not granted, and none of them can be before somebody of
//     the knot gives up its claim or what it holds;
//  2. a circle through self is found if all who keep it closed wait, however far, for self.
type knot struct {
	load func(dir string) (*lineup, error)
	skip func(*party) bool // parties that are not to be taken for waiting
	self *party

	lines   map[string]*lineup
	reached []*party            // those who may wait for self, and what these hold; self first
	waits   map[*party]bool     // of these, the ones that wait for one that is stuck
	holds   map[*party][]string // stems of what the owner of each holds, of those that wait
	held    map[string][]*party // by stem of what is held: the parties of waits whose owner holds it
}

// circle returns a shortest circle of waits through self, nil if there is none.
func (k *knot) circle() (Deadlock, error) {
	if err := k.reach(); err != nil {
		return nil, err
	}
	for settled := false; !settled; {
		settled = true
		k.held = map[string][]*party{}
		for _, p := range k.reached {
			if k.waits[p] {
				for _, stem := range k.holds[p] {
					k.held[stem] = append(k.held[stem], p)
				}
			}
		}
		for _, p := range k.reached {
			if k.waits[p] && !k.lines[p.dir].blocked(p, k.stuck) {
				delete(k.waits, p)
				settled = false
			}
		}
	}
	if !k.waits[k.self] {
		return nil, nil
	}
	return k.around(), nil
}

// stuck reports whether a party waits, or is held while its owner waits.
func (k *knot) stuck(p *party) bool { return k.waits[p] || len(k.held[p.stem]) > 0 }

// reach finds who may be part of a knot with self: at first, everybody who is not granted waits.
func (k *knot) reach() error {
	k.lines, k.waits, k.holds = map[string]*lineup{}, map[*party]bool{}, map[*party][]string{}
	known := map[*party]bool{}
	add := func(p *party) {
		if !known[p] {
			known[p] = true
			k.reached = append(k.reached, p)
		}
	}
	add(k.self)
	for i := 0; i < len(k.reached); i++ { // which grow meanwhile
		p := k.reached[i]
		line, err := k.load(p.dir)
		if err != nil {
			return err
		}
		k.lines[p.dir] = line
		for _, other := range line.parties {
			if line.mayWaitFor(other, p) && (other == k.self || !k.skip(other)) {
				add(other)
			}
		}
		if p != k.self && k.skip(p) || !line.waits(p) {
			continue
		}
		k.waits[p] = true
		for _, stem := range p.under {
			line, err := k.load(zk.Parent(stem))
			if err != nil {
				return err
			}
			if holder := line.find(stem); holder != nil && !line.waits(holder) { // what waits is not held yet
				add(holder)
				k.holds[p] = append(k.holds[p], stem)
			}
		}
	}
	return nil
}

// A step is one wait on the way around: the party at its end waits, or holds what the one before waits for
// while it waits elsewhere.
type step struct {
	from *step
	p    *party
	by   *party // whom from's party waits for
}

// around returns the waits of a shortest way from self to self; nil if those who keep self waiting do not
// wait for it.
func (k *knot) around() Deadlock {
	seen := map[*party]bool{}
	for steps := []*step{{p: k.self}}; len(steps) > 0; steps = steps[1:] {
		at := steps[0]
		line := k.lines[at.p.dir]
		for i := at.p.first - 1; i >= 0; i-- { // the nearest first
			by := line.of[i]
			if !line.mayWaitFor(at.p, by) || !k.stuck(by) {
				continue
			}
			next := k.held[by.stem]
			if k.waits[by] {
				next = append([]*party{by}, next...)
			}
			for _, p := range next {
				s := &step{from: at, p: p, by: by}
				if p == k.self {
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
		d = append(d, Wait{Path: s.from.p.dir, Waiter: s.from.p.who, For: s.by.who})
	}
	slices.Reverse(d)
	return d
}
