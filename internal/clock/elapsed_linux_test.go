package clock

import (
	"testing"
	"time"
)

// The clock that counts suspended time is told from the last reading of it, as far as that says it.
func TestElapsedIsWhatTheKernelSays(t *testing.T) {
	for range 1000 {
		before, got, after := boottime(), systemElapsed(time.Now()), boottime()
		if got < before-agreement || got > after+agreement {
			t.Fatalf("told %v between %v and %v", got, before, after)
		}
	}
}

// F18: a reading holds until the machine has been suspended, or the wall clock set.
func TestF18_AReadingEndsWithASuspension(t *testing.T) {
	r := reading{mono: time.Hour, wall: 50 * 365 * 24 * time.Hour, boot: 3 * time.Hour}
	for _, c := range []struct {
		mono, wall time.Duration // that have passed
		holds      bool
	}{
		{0, 0, true},
		{time.Hour, time.Hour, true},
		{time.Hour, time.Hour + agreement/2, true},
		{time.Second, 3 * time.Second, false}, // suspended, or put forward
		{time.Second, time.Second + agreement, false},
		{time.Hour, time.Minute, false}, // put back
		{time.Hour, time.Hour - agreement, false},
	} {
		if got := r.holds(r.mono+c.mono, r.wall+c.wall); got != c.holds {
			t.Errorf("after %v, and %v by the wall clock: holds is %v, want %v", c.mono, c.wall, got, c.holds)
		}
	}
}

// A reading that no longer holds is taken again.
func TestAReadingIsTakenAgain(t *testing.T) {
	defer newest.Store(newest.Load())
	now := time.Now()
	newest.Store(&reading{mono: now.Sub(began), wall: time.Duration(now.UnixNano()) - time.Minute, boot: time.Second}) // a minute asleep
	before, got := boottime(), systemElapsed(time.Now())
	if got < before {
		t.Errorf("told %v, want at least %v", got, before)
	}
}
