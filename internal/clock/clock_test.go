package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// F18: the monotonic clock stands still while the machine sleeps; the other one does not, and
// whichever says more is believed.
func TestF18_SuspendedTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := time.Duration(0)
		start := time.Now()
		c := Clock{Elapsed: func(time.Time) time.Duration { return time.Since(start) + asleep }}
		then := c.Now()
		time.Sleep(time.Second)
		if got := c.Now().Sub(then); got != time.Second {
			t.Errorf("awake: %v have passed, want 1s", got)
		}
		asleep = time.Hour
		if got, want := c.Now().Sub(then), time.Hour+time.Second; got != want {
			t.Errorf("after an hour's sleep: %v have passed, want %v", got, want)
		}
		asleep = -time.Hour // a clock that jumps back takes nothing away
		if got := c.Now().Sub(then); got != time.Second {
			t.Errorf("after a step back: %v have passed, want 1s", got)
		}
	})
}

func TestSystemClockGoesForward(t *testing.T) {
	c := System()
	a := c.Now()
	for c.Now().Sub(a) < time.Millisecond {
	}
	b := c.Now()
	if !b.After(a) {
		t.Errorf("After: %v is not later than %v", b, a)
	}
	if age := c.Now().Sub(Instant{}); age < 10*365*24*time.Hour {
		t.Errorf("the zero Instant is %v ago", age)
	}
}
