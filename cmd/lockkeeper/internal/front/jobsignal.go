package front

import (
	"os"
	"os/signal"
	"time"
)

// A jobSignal is a signal of job control that we catch, TSTP or CONT. It has a channel of its own because we also
// cause it ourselves: one that is due must be heard before we go on. Heard later, our own TSTP, or the CONT that
// ended one stop, would be taken for another one and undo what the terminal's user has typed meanwhile.
type jobSignal chan os.Signal

func newJobSignal() jobSignal { return make(jobSignal, 1) } // more at once are more of the same

func (j jobSignal) catch(sig os.Signal) { signal.Notify(j, sig) }
func (j jobSignal) stop()               { signal.Stop(j) }

// forget drops what has been heard.
func (j jobSignal) forget() {
	select {
	case <-j:
	default:
	}
}

// await returns when a signal that has been sent is heard. It does not wait for ever: should the signal have been
// discarded, the worst that happens is that a key has to be pressed again.
func (j jobSignal) await() {
	select {
	case <-j:
	case <-time.After(time.Second):
	}
}
