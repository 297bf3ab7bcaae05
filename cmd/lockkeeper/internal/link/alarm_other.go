//go:build !linux

package link

import "time"

// alarmSlack is how late an alarm may be after the machine was suspended.
const alarmSlack = 100 * time.Millisecond

// An alarmClock looks at the clock often, because timers stand still while the machine sleeps.
type alarmClock struct {
	set  chan Instant
	stop chan struct{}
	done chan struct{} // closed when run has ended
}

// NewAlarm returns an alarm that is not set.
func NewAlarm() (*Alarm, error) {
	c := make(chan struct{}, 1)
	a := &Alarm{C: c, alarmClock: alarmClock{set: make(chan Instant), stop: make(chan struct{}), done: make(chan struct{})}}
	go a.run(c)
	return a, nil
}

func (a *alarmClock) run(c chan<- struct{}) {
	defer close(a.done)
	timer := time.NewTimer(0)
	timer.Stop()
	var at Instant
	for {
		select {
		case <-a.stop:
			timer.Stop()
			return
		case at = <-a.set:
		case <-timer.C:
		}
		if left := at.Until(); left > 0 {
			timer.Reset(min(left, alarmSlack))
			continue
		}
		timer.Stop()
		select {
		case c <- struct{}{}:
		default: // one is waiting already
		}
	}
}

// Set sets the alarm to a moment, at once if it has passed. Only the last setting counts.
func (a *Alarm) Set(at Instant) error {
	a.set <- at
	return nil
}

// Close ends the alarm.
func (a *Alarm) Close() {
	close(a.stop)
	<-a.done
}
