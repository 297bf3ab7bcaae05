package client

import (
	"testing"
	"time"
)

// However many rounds were in vain, the pause stays between half of the last one and BackoffMax.
func TestBackoffStaysBelowMax(t *testing.T) {
	for _, b := range []backoff{
		{min: 50 * time.Millisecond, max: 2 * time.Second},
		{min: 10 * time.Second, max: 10 * time.Second},
		{min: 7 * time.Second, max: 24 * time.Hour},
		{min: 1, max: 1<<63 - 1},
	} {
		least := time.Duration(0)
		for round := range 200 {
			d := b.pause()
			if d < least || d > b.max {
				t.Fatalf("min %v, max %v: round %d: pause %v, want %v to %v", b.min, b.max, round, d, least, b.max)
			}
			least = min(b.max, b.min<<min(round, 20)) / 2
		}
	}
}
