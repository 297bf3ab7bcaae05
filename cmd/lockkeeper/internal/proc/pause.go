package proc

import "time"

const (
	pauseShort  = 5 * time.Millisecond
	pauseLong   = 200 * time.Millisecond
	pausesShort = 200 // a second
)

// Pause returns how long to wait before looking again whether processes that were killed are gone, after
// so many looks: not long, unless they are of the kind that cannot be killed.
func Pause(looks int) time.Duration {
	if looks < pausesShort {
		return pauseShort
	}
	return pauseLong
}
