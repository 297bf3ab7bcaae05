package link

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// An alarmClock is a timer of the kernel on the clock that counts suspended time.
type alarmClock struct {
	fd   int
	file *os.File
	done chan struct{} // closed when ring has ended
}

// NewAlarm returns an alarm that is not set.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	c := make(chan struct{}, 1)
	a := &Alarm{C: c, alarmClock: alarmClock{fd: fd, file: os.NewFile(uintptr(fd), "alarm"), done: make(chan struct{})}}
	go a.ring(c)
	return a, nil
}

func (a *alarmClock) ring(c chan<- struct{}) {
	defer close(a.done)
	var count [8]byte
	for {
		if _, err := a.file.Read(count[:]); err != nil {
			return // closed
		}
		if binary.NativeEndian.Uint64(count[:]) == 0 {
			continue
		}
		select {
		case c <- struct{}{}:
		default: // one is waiting already
		}
	}
}

// Set sets the alarm to a moment, at once if it has passed. Only the last setting counts.
func (a *Alarm) Set(at Instant) error {
	at = max(at, 1) // zero would disarm it
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil))
}

// Close ends the alarm.
func (a *Alarm) Close() {
	a.file.Close()
	<-a.done
}
