package lock

import (
	"fmt"
	"testing"
	"time"
)

// What is there decides; the number of permits that a directory keeps only where nobody is.
func TestKindOf(t *testing.T) {
	name := func(word string) string { return newAttemptID().prefix(word) + "0000000007" }
	for _, tt := range []struct {
		names   []string
		permits int
		want    Kind
	}{
		{nil, 0, KindNone},
		{[]string{"stranger"}, 0, KindNone},
		{nil, 2, KindSemaphore},
		{[]string{name(leaseWord)}, 2, KindSemaphore},
		{[]string{name(leaseWord)}, 0, KindSemaphore},
		{[]string{name(lockWord)}, 0, KindMutex},
		{[]string{name(lockWord)}, 2, KindMutex},
		{[]string{name(readWord)}, 2, KindReadWrite},
		{[]string{name(writeWord), name(lockWord)}, 0, KindReadWrite},
		{[]string{name(latchWord)}, 0, KindElection},
		{[]string{leasesName}, 0, KindCuratorSemaphore},
	} {
		if got := kindOf(tt.names, tt.permits); got != tt.want {
			t.Errorf("kindOf(%q, %d) = %q, want %q", tt.names, tt.permits, got, tt.want)
		}
	}
}

// A line of any length is looked at once: tens of thousands that wait for a semaphore cost no more than as many that
// wait for a mutex.
func TestAssignInALongLine(t *testing.T) {
	line := make([]Contender, 40_000)
	for i := range line {
		line[i].Node = fmt.Sprintf("/s/%s%010d", newAttemptID().prefix(leaseWord), i)
	}
	began := time.Now()
	assign(3, line)
	if d := time.Since(began); d > 4*time.Second {
		t.Errorf("a line of %d took %v", len(line), d)
	}
	for i, c := range line {
		if c.Place != i || c.Held != (i < 3) {
			t.Fatalf("contender %d: place %d, held %v", i, c.Place, c.Held)
		}
	}
}
