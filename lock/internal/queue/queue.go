package queue

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A Claim is one node in the queue.
type Claim struct {
	Number int32
	Mode   Mode
	Name   string // of its node
}

// A Queue holds the claims of one lock, the oldest first. It is a pure function of a listing, and of the number of permits. Guarantees:
//  1. the queue is ordered by number, never by the text of names, and a counter that wraps does not disturb the order;
//  2. children that are not claims of the modes asked for were set aside, never an error.
type Queue struct {
	Claims  []Claim
	Other   Claim // the oldest claim of a mode that was not asked for; its name is empty if there is none
	Curator bool  // it may be the path of Curator's semaphore, whose claims are in two directories below
	Permits int   // how many claims may be granted at once, where the lock has a number for that; otherwise 0
	Spent   bool  // the directory's counter stands at its end
}

// Parse makes the queue of a directory from its listing, of the claims that are of one of modes.
func Parse(names []string, modes Mode) Queue {
	q := Queue{Claims: make([]Claim, 0, len(names)), Curator: isCuratorSemaphore(names)}
	for _, name := range names {
		number, k, ok := ParseName(name)
		switch {
		case !ok:
		case k&modes != 0:
			q.Claims = append(q.Claims, Claim{number, k, name})
		case q.Other.Name == "" || Before(number, q.Other.Number):
			q.Other = Claim{number, k, name}
		}
	}
	slices.SortFunc(q.Claims, func(a, b Claim) int {
		return cmp.Or(int(a.Number-b.Number), strings.Compare(a.Name, b.Name)) // as Before; for equal numbers see OrderUnknown
	})
	return q
}

// OtherAhead returns the kind of lock whose claim is ahead of the one at place, but not in this queue; KindNone if there is none.
func (q Queue) OtherAhead(place int) Kind {
	if q.Other.Name == "" || !Before(q.Other.Number, q.Claims[place].Number) {
		return KindNone
	}
	return KindOf([]string{q.Other.Name}, 0)
}

// Names returns the names of all claims, oldest first.
func (q Queue) Names() []string {
	var names []string
	for _, c := range q.Claims {
		names = append(names, c.Name)
	}
	return names
}

// Before reports whether a was given out before b, in the arithmetic of serial numbers (RFC 1982): the
// counter is a signed 32-bit number that has been seen to wrap, and the queue is never 2^31 long.
func Before(a, b int32) bool { return a-b < 0 }

// PlacesOf returns the places of the nodes that an attempt made, first one first. There are more than it has asked for if
// a server applies a create late: a listing behind a transaction has shown no node, so the attempt has created again. ZooKeeper never
// does that; other servers of the protocol may.
func (q Queue) PlacesOf(id ID) []int {
	var places []int
	for i, c := range q.Claims {
		if id.Made(c.Name) {
			places = append(places, i)
		}
	}
	return places
}

// OrderUnknown reports whether the order of the claim at place is unknown. It is if another claim has the same number, as at servers
// whose counter stops at its end (observed with 3.8.0). It is also if the counter stands there and the number is from beyond its end:
// 3.8.0 gives out such numbers, as if the counter wrapped, while creates before are not yet committed, and the last number again after
// that, so that a claim that comes later would be ahead.
func (q Queue) OrderUnknown(place int) bool {
	n := q.Claims[place].Number
	tied := place > 0 && q.Claims[place-1].Number == n || place+1 < len(q.Claims) && q.Claims[place+1].Number == n
	return tied || q.Spent && n < math.MinInt32+nearEnd
}

// CounterSpent reports whether the counter of a directory with that stat stands at its end. Cversion is the number of creates and
// deletes, and NumChildren that of creates less deletes: their sum is twice the creates, and both sides wrap around at 2^31-1 creates.
func CounterSpent(stat zk.Stat) bool {
	last := int32(math.MaxInt32)
	return stat.Cversion+stat.NumChildren == 2*last
}

// nearEnd is how many numbers before the end of the counter it is time to warn.
const nearEnd = 1 << 24

// Exhausting reports whether a counter that stands at number comes to its end before long.
func Exhausting(number int32) bool { return number > math.MaxInt32-nearEnd }
