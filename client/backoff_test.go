package client

import (
	"testing"
	"time"
)

// However many rounds were in vain, the pause stays between half of the last one and BackoffMax.
func TestBackoffStaysBelowMax(t *testing.T) {
	for _, opt := range []Options{
		{BackoffMin: 50 * time.Millisecond, BackoffMax: 2 * time.Second},
		{BackoffMin: 10 * time.Second, BackoffMax: 10 * time.Second},
		{BackoffMin: 7 * time.Second, BackoffMax: 24 * time.Hour},
		{BackoffMin: 1, BackoffMax: 1<<63 - 1},
	} {
		least := time.Duration(0)
		for round := range 200 {
			d := opt.backoff(round)
			if d < least || d > opt.BackoffMax {
				t.Fatalf("min %v, max %v: round %d: pause %v, want %v to %v", opt.BackoffMin, opt.BackoffMax, round, d, least, opt.BackoffMax)
			}
			least = min(opt.BackoffMax, opt.BackoffMin<<min(round, 20)) / 2
		}
	}
}
