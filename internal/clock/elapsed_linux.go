package clock

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME, see clock_gettime(2)

// systemElapsed reads CLOCK_BOOTTIME: monotonic, and it counts the time spent suspended.
func systemElapsed() time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0 // a kernel before 2.6.39: the monotonic clock decides alone
	}
	return time.Duration(ts.Nano())
}
