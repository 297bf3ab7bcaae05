package lock

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// F34: contenders of another kind are noticed by the oldest of them, in whatever order the server lists them.
func TestF34_OthersAhead(t *testing.T) {
	const permit, early, late = "a-lease-0000000003", "b-lock-0000000002", "c-latch-0000000009"
	for _, tt := range []struct {
		names []string
		want  Kind
	}{
		{[]string{permit}, queue.KindNone},
		{[]string{permit, "stranger"}, queue.KindNone},
		{[]string{permit, late}, queue.KindNone},
		{[]string{permit, early}, queue.KindMutex},
		{[]string{early, permit, late}, queue.KindMutex},
		{[]string{late, permit, early}, queue.KindMutex},
		{[]string{late, early, permit}, queue.KindMutex},
	} {
		seen := queue.Parse(tt.names, queue.PermitRules.Heeds)
		if got := seen.OtherAhead(0); got != tt.want {
			t.Errorf("%q: ahead of the semaphore's contender: %q, want %q", tt.names, got, tt.want)
		}
	}
}
