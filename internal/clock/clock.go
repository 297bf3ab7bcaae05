// Package clock measures how long ago something was, for decisions that must not be wrong when the
// machine has slept.
//
// Go's monotonic clock stands still while a machine is suspended, and its wall clock jumps when
// it is set. Where the operating system has a clock that does neither (CLOCK_BOOTTIME on
// Linux), a Clock reads it beside the monotonic one and believes whichever says that more time has
// passed. Elsewhere the wall clock takes its place: a forward step then ends a loan early, which is
// safe, and a backward step changes nothing.
package clock

import "time"

// An Instant is a moment as both clocks saw it.
type Instant struct {
	mono  time.Time
	awake time.Duration // reading of the clock that counts suspended time
}

// IsZero reports whether i is no moment at all.
func (i Instant) IsZero() bool { return i.mono.IsZero() }

// Time returns the moment as package time knows it.
func (i Instant) Time() time.Time { return i.mono }

// After reports whether i is later than j: by the monotonic clock, and where that stood still by the other one.
func (i Instant) After(j Instant) bool {
	return i.mono.After(j.mono) || i.mono.Equal(j.mono) && i.awake > j.awake
}

// A Clock tells moments and the time between them. The zero Clock uses package time alone, so that
// it follows virtual time in tests.
type Clock struct {
	// Elapsed reads a clock that goes on while the machine is suspended, from any origin; nil
	// means that there is none.
	Elapsed func() time.Duration
}

// System returns the machine's clock.
func System() Clock { return Clock{Elapsed: systemElapsed} }

// Now returns the present moment.
func (c Clock) Now() Instant {
	i := Instant{mono: time.Now()}
	if c.Elapsed != nil {
		i.awake = c.Elapsed()
	}
	return i
}

// Since returns how much time has passed since i: the larger of what the clocks say.
func (c Clock) Since(i Instant) time.Duration { return c.Now().Sub(i) }

// Sub returns how much time passed from j to i: the larger of what the clocks said.
func (i Instant) Sub(j Instant) time.Duration { return max(i.mono.Sub(j.mono), i.awake-j.awake) }
