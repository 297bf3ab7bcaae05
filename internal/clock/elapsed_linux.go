package clock

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME, see clock_gettime(2)

// systemElapsed returns the time of CLOCK_BOOTTIME, which is monotonic and counts the time spent suspended. Reading it takes a system
// call, reading the clocks of package time takes none. So it is read again only if these show that the last reading does not hold.
func systemElapsed(now time.Time) time.Duration {
	mono, wall := now.Sub(began), time.Duration(now.UnixNano())
	if r := newest.Load(); r != nil && r.holds(mono, wall) {
		return r.boot + mono - r.mono
	}
	r := &reading{mono: mono, wall: wall, boot: boottime()}
	if time.Since(now) < agreement { // the goroutine was not kept waiting between the clocks
		newest.Store(r)
	}
	return r.boot
}

// A reading is what three clocks said at a moment.
type reading struct{ mono, wall, boot time.Duration }

// newest is the last reading that was taken without a pause between the clocks.
var newest atomic.Pointer[reading]

// agreement bounds how far the clocks may be apart for a reading to hold. No machine is suspended for so short a time.
const agreement = time.Millisecond

// holds reports whether CLOCK_BOOTTIME has advanced as far as the monotonic clock since the reading; mono and wall are the present times.
// After a suspension the kernel advances CLOCK_BOOTTIME and the wall clock by the time asleep, and not the monotonic clock. A wall clock
// that was set differs, too. Only setting it back by just the time asleep, before a process looks, would hide a suspension.
func (r *reading) holds(mono, wall time.Duration) bool {
	return ((wall - r.wall) - (mono - r.mono)).Abs() < agreement
}

// boottime reads CLOCK_BOOTTIME.
func boottime() time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0 // a kernel before 2.6.39: the monotonic clock decides alone
	}
	return time.Duration(ts.Nano())
}
