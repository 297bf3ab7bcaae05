package lock

import (
	"math"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
)

// Where a counter ends or wraps, a number may be given again, and the next one does not mean that nobody has come.
func TestCalmEndsBeforeTheCounterDoes(t *testing.T) {
	for _, tt := range []struct {
		last, number int32
		want         bool
	}{
		{0, 1, true},
		{1, 1, false},
		{1, 3, false},
		{math.MaxInt32 - nearEnd - 1, math.MaxInt32 - nearEnd, true},
		{math.MaxInt32 - 1, math.MaxInt32, false},
		{math.MaxInt32, math.MinInt32, false},
		{math.MinInt32, math.MinInt32 + 1, false},
		{-2, -1, false},
	} {
		c := &calm{number: tt.last, watch: new(client.Watch), conn: 1}
		if got := c.holds(tt.number, 1); got != tt.want {
			t.Errorf("number %d behind %d: the lock is free: %v, want %v", tt.number, tt.last, got, tt.want)
		}
	}
}
