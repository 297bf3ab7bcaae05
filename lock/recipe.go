package lock

import "strings"

// A recipe makes a kind of lock out of the line: how claims to it are named, which claims stand in its
// line, and whom a claim has to wait for. The fair locks differ in nothing else.
type recipe struct {
	verb  string // what its Lock is called in errors
	word  string // in the names of its claims; see name.go
	kind  kind   // of its claims
	heeds kind   // the kinds of claims that stand in its line; all others in the directory are passed over

	// waitsFor returns the places of claims that the one at place has to wait for, none if it is
	// granted. It need not name all of them: as long as those that it names are there, nothing changes,
	// and when one of them leaves it is asked again.
	waitsFor func(q queue, place int) []int

	// rings says that a holder which had to wait announces its release by a bell; see grant.delete. The waiter
	// behind it concludes that it need not wait for anybody further ahead either, which is true where a claim is
	// granted only when all that it conflicts with have gone: not with permits.
	rings bool

	// moves says that a holder may let another node take the place of its own (Hold.Downgrade). So the end of a
	// node of this word does not tell that its holder has left; only the bell does.
	moves bool

	// reenters says that whoever asks again under a hold gets another hold of the same node, and not another
	// place in line.
	reenters bool
}

var (
	mutexRecipe = recipe{
		verb: "lock", word: lockWord, kind: exclusive, heeds: exclusive | shared,
		waitsFor: waitForConflict, rings: true, reenters: true,
	}
	writeRecipe = recipe{
		verb: "lock", word: writeWord, kind: exclusive, heeds: exclusive | shared,
		waitsFor: waitForConflict, rings: true, moves: true, reenters: true,
	}
	readRecipe = recipe{
		verb: "read lock", word: readWord, kind: shared, heeds: exclusive | shared,
		waitsFor: waitForConflict, rings: true, reenters: true,
	}
	permitRecipe = recipe{verb: "acquire", word: leaseWord, kind: permit, heeds: permit, waitsFor: waitForRoom}
)

// mayMove reports whether the holder of the claim called name may have let a shared claim take its place.
func mayMove(name string) bool { return strings.Contains(name, writeWord) }

// waitForConflict is the rule of mutexes and read/write locks: a claim waits for the nearest claim ahead
// that it cannot share the lock with. That one waits for whoever is further ahead.
func waitForConflict(q queue, place int) []int {
	for i := place - 1; i >= 0; i-- {
		if conflict(q.line[i].kind, q.line[place].kind) {
			return []int{i}
		}
	}
	return nil
}

// waitForRoom is the rule of semaphores: a claim is granted if fewer are ahead than there is room for, and
// otherwise waits for the nearest ones ahead, as many as there is room for: as long as all of these are there,
// there is no room. If claims leave in the order in which they came, each one that leaves wakes one waiter, the one
// whose turn it is. To wait for fewer, or for others, is not enough, or wakes no fewer (docs/guarantees.md).
func waitForRoom(q queue, place int) []int {
	if place < q.room {
		return nil
	}
	waits := make([]int, 0, q.room)
	for i := place - 1; i >= place-q.room; i-- {
		waits = append(waits, i)
	}
	return waits
}

// conflict reports whether two claims cannot hold the lock at once.
func conflict(a, b kind) bool { return a != shared || b != shared }

// afterEndOf returns what is known of the queue once the node at ended, which is ahead of place, has gone, and the
// new place of the claim at place. If the node may have gone by a downgrade, it is assumed that it has: a shared claim
// stands in its place.
func (q queue) afterEndOf(ended, place int) (queue, int) {
	return q.edit(place, func(i int) fate {
		switch {
		case i != ended:
			return stays
		case mayMove(q.line[i].name):
			return shares
		}
		return leaves
	})
}

// afterBellOf returns what is known of the queue once the claim at holder, which is ahead of place, has rung its
// bell, and the new place of the claim at place. It has held the lock and left, so everybody that it had to wait for
// has left before it; or shares the lock, after a downgrade, if the holder was a reader.
func (q queue) afterBellOf(holder, place int) (queue, int) {
	return q.edit(place, func(i int) fate {
		switch {
		case i == holder:
			return leaves
		case i > holder || !conflict(q.line[i].kind, q.line[holder].kind):
			return stays
		case q.line[holder].kind == shared && mayMove(q.line[i].name):
			return shares
		}
		return leaves
	})
}

// A fate is what has become of a claim.
type fate uint8

const (
	stays fate = iota
	leaves
	shares // it stays, as a shared claim
)

// edit returns the queue after every claim has met its fate, and the new place of the claim at place.
func (q queue) edit(place int, fateOf func(i int) fate) (queue, int) {
	rest := queue{line: make([]claim, 0, len(q.line)), room: q.room}
	at := place
	for i, c := range q.line {
		switch fateOf(i) {
		case leaves:
			if i < place {
				at--
			}
			continue
		case shares:
			c.kind = shared
		}
		rest.line = append(rest.line, c)
	}
	return rest, at
}
