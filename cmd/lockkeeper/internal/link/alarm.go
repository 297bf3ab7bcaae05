package link

// An Alarm tells its owner, over C, that a moment has come. It belongs to one goroutine. Moments
// that pass while the machine is suspended are reported when it wakes, where the system can do that,
// and within alarmSlack otherwise.
type Alarm struct {
	C <-chan struct{} // one token may wait in it; a token may be left over from an earlier setting

	alarmClock
}
