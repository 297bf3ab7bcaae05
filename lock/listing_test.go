package lock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A queue in memory that was another's is what it would be in its own, and the other keeps what it has told.
func TestAQueueInUsedMemory(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var used *queue
	for range 2000 {
		var names []string
		for range r.IntN(20) {
			names = append(names, numbered(r, r.Int32()))
		}
		if r.IntN(2) == 0 {
			slices.Reverse(names)
		}
		q := newQueue()
		if len(q.line) != 0 || len(q.names) != 0 || q.room != 0 {
			t.Fatalf("seed %d: a new queue has %d claims, %d bytes, %d room", seed, len(q.line), len(q.names), q.room)
		}
		for _, name := range names {
			q.see(name, mutexRecipe.heeds)
		}
		q.sort()
		told := q.inOrder()
		if want := parseQueue(names, mutexRecipe.heeds).inOrder(); !slices.Equal(told, want) {
			t.Fatalf("seed %d: %q, want %q", seed, told, want)
		}
		q.room = r.IntN(3)
		before := fmt.Sprint(told)
		q.free()
		if used != nil && used == q {
			q = newQueue() // fill what was q's
			for range 20 {
				q.see(numbered(r, 1), mutexRecipe.heeds)
			}
			if after := fmt.Sprint(told); after != before {
				t.Fatalf("seed %d: what was told has become %s, was %s", seed, after, before)
			}
			q.free()
		}
		used = q
	}
}

// Memory that a very long line took is not kept.
func TestAVeryLongQueueIsNotKept(t *testing.T) {
	q := new(queue)
	for i := range 2000 {
		q.add(newAttemptID().prefix(lockWord), int32(i), exclusive)
	}
	if q.free(); len(q.line) == 0 {
		t.Errorf("%d bytes are kept", cap(q.names))
	}
}
