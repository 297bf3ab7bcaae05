// Package clock measures how long ago something was, for decisions that must not be wrong when the
// machine has slept.
//
// Go's monotonic clock stands still while a machine is suspended, and its wall clock jumps when
// it is set. Where the operating system has a clock that does neither (CLOCK_BOOTTIME on
// Linux), a Clock reads it beside the monotonic one and believes whichever says that more time has
// passed. Elsewhere the wall clock takes its place. A backward step then changes nothing. A forward step
// mostly ends a lease early, which is safe; right behind a long silence it can make one too long, because
// a request then seems to have been answered long enough ago for the leader to know of it.
package clock

import "time"

// An Instant is a moment as both clocks saw it. The zero Instant is for ever ago.
type Instant struct {
	mono  time.Duration // reading of the monotonic clock
	awake time.Duration // reading of the clock that counts suspended time
}

// At returns the moment at which both clocks said d.
func At(d time.Duration) Instant { return Instant{d, d} }

// Add returns the moment d later.
func (i Instant) Add(d time.Duration) Instant { return Instant{i.mono + d, i.awake + d} }

// After reports whether i is later than j: by the monotonic clock, and where that stood still by the other one.
func (i Instant) After(j Instant) bool {
	return i.mono > j.mono || i.mono == j.mono && i.awake > j.awake
}

// Sub returns how much time passed from j to i: the larger of what the clocks said.
func (i Instant) Sub(j Instant) time.Duration { return max(i.mono-j.mono, i.awake-j.awake) }

// A Clock tells moments and the time between them. The zero Clock uses package time alone, so that
// it follows virtual time in tests.
type Clock struct {
	// Elapsed reads a clock that goes on while the machine is suspended, from any origin; nil
	// means that there is none. It is called right after package time has said now.
	Elapsed func(now time.Time) time.Duration
}

// System returns the machine's clock.
func System() Clock { return Clock{Elapsed: systemElapsed} }

// The monotonic clock is read as the time since began, to which origin is added: longer than any time that is measured.
var began = time.Now()

const origin = time.Duration(1 << 61)

// Now returns the present moment.
func (c Clock) Now() Instant { return c.At(time.Now()) }

// At is Now for a caller that has just asked package time.
func (c Clock) At(now time.Time) Instant {
	i := Instant{mono: origin + now.Sub(began)}
	if c.Elapsed != nil {
		i.awake = c.Elapsed(now)
	}
	return i
}
