package link

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
)

// An Instant is a moment that means the same in all processes of a machine: nanoseconds on a clock
// that goes on while the machine is suspended (CLOCK_BOOTTIME on Linux).
type Instant int64

var elapsed = clock.System().Elapsed

// Now returns the present moment.
func Now() Instant { return Instant(elapsed(time.Now())) }

// Add returns the moment d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Until returns how long it is until i; negative if it has passed.
func (i Instant) Until() time.Duration { return time.Duration(i - Now()) }
