package lock

import (
	"math"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A claim is one node in the line.
type claim struct {
	number int32
	kind   kind
	name   string // of its node
}

// A queue is the line in front of one lock, oldest claim first. It is a pure function of a listing.
// Guarantees:
//  1. the line is ordered by number, never by the text of names, and a counter that wraps does not
//     disturb the order;
//  2. children that are not claims of the kinds asked for were set aside, never an error.
type queue struct {
	line  []claim
	room  int  // how many claims may be granted at once, where the lock has a number for that; otherwise 0
	spent bool // the directory's counter stands at its end
}

// parseQueue makes the queue of a directory from its listing, of the claims that are of one of kinds.
func parseQueue(names []string, kinds kind) queue {
	q := queue{line: make([]claim, 0, len(names))}
	for _, name := range names {
		q.see(name, kinds)
	}
	q.sort()
	return q
}

// see puts the claim called name at the end of the line, if it is one of these kinds.
func (q *queue) see(name string, kinds kind) {
	if number, k, ok := parseName(name); ok && k&kinds != 0 {
		q.add(name, number, k)
	}
}

// add puts a claim at the end of the line.
func (q *queue) add(name string, number int32, k kind) {
	q.line = append(q.line, claim{number, k, name})
}

// sort brings the line into its order.
func (q queue) sort() {
	if n := len(q.line); n > 1 && before(q.line[n-1].number, q.line[0].number) { // our server lists the newest first
		slices.Reverse(q.line)
	}
	slices.SortFunc(q.line, func(a, b claim) int {
		if a.number == b.number { // see tied; the text only makes the order definite
			return strings.Compare(a.name, b.name)
		}
		if before(a.number, b.number) {
			return -1
		}
		return 1
	})
}

// inOrder returns the names of all claims, oldest first.
func (q queue) inOrder() []string {
	var names []string
	for _, c := range q.line {
		names = append(names, c.name)
	}
	return names
}

// before reports whether a was given out before b, in the arithmetic of serial numbers (RFC 1982): the
// counter is a signed 32-bit number that has been seen to wrap, and the line is never 2^31 long.
func before(a, b int32) bool { return a-b < 0 }

// mine returns the places of the nodes that an attempt made, first one first. More than one is the
// sign of a create that was repeated although it had succeeded.
func (q queue) mine(id attemptID) []int {
	var places []int
	for i, c := range q.line {
		if id.made(c.name) {
			places = append(places, i)
		}
	}
	return places
}

// tied reports whether another contender has the same number as the one at place. On servers whose
// counter stops at its end (3.8.0 has been observed to) that is how it ends, and nobody can say who
// came first.
func (q queue) tied(place int) bool {
	n := q.line[place].number
	return place > 0 && q.line[place-1].number == n || place+1 < len(q.line) && q.line[place+1].number == n
}

// unsettled reports whether nobody can say of the claim at place who came first: it is tied, or has a number from beyond
// the end of a counter that stops there. 3.8.0 has been observed to give out such numbers, as if the counter wrapped, as
// long as creates before are not yet committed, and then the last number again: who comes later would be ahead.
func (q queue) unsettled(place int) bool {
	return q.tied(place) || q.spent && q.line[place].number < math.MinInt32+nearEnd
}

// counterSpent reports whether the counter of a directory with that stat stands at its end. The stat has the number of
// creates and deletes together.
func counterSpent(stat zk.Stat) bool {
	last := int32(math.MaxInt32)
	return stat.Cversion+stat.NumChildren == 2*last
}

// nearEnd is how many numbers before the end of the counter it is time to warn.
const nearEnd = 1 << 24

// exhausting reports whether a counter that stands at number comes to its end before long.
func exhausting(number int32) bool { return number > math.MaxInt32-nearEnd }
