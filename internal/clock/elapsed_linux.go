package clock

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME, see clock_gettime(2)

// systemElapsed returns what CLOCK_BOOTTIME says: monotonic, and it counts the time spent suspended. To ask for it is a system call,
// other than for the clocks of package time, so the last answer serves for as long as it tells the present one.
func systemElapsed() time.Duration {
	now := time.Now()
	mono, wall := now.Sub(began), time.Duration(now.UnixNano())
	if r := newest.Load(); r != nil && r.holds(mono, wall) {
		return r.boot + mono - r.mono
	}
	r := &reading{mono: mono, wall: wall, boot: boottime()}
	if time.Since(now) < agreement { // not much has passed between the clocks, nor has the goroutine been kept waiting
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

// holds reports whether CLOCK_BOOTTIME has gone on as the monotonic clock has, which then says mono. After a suspension the kernel puts
// CLOCK_BOOTTIME and the wall clock forward by the same time, and leaves the monotonic clock. The wall clock also differs once it has been
// set. Only one that is put back, before a process looks, by just as much as the machine has slept would hide the sleep.
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
