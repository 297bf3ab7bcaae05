package election

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
)

// Options configure a candidate. The zero value of every field means its default.
type Options struct {
	// ID is how a candidate calls itself, an address perhaps. It need not be unique.
	ID string

	// Data is whatever else others may want to know of a leader.
	Data []byte

	// IDOnly makes the candidate's znode say the ID and nothing else, which is what Curator's LeaderLatch
	// writes and takes for the id when it reads. Without it Java sees JSON in place of an id. Data must
	// then be empty.
	IDOnly bool

	// Grace is how long the work of a leader that resigns may go on before another is let lead. Default
	// 5 s.
	Grace time.Duration

	// Margin is how long before its lock could be given away a leader that hears nothing from the ensemble
	// is told to stop. Default a sixth of the session timeout, at most a third; negative means none.
	// A heartbeat that is late by a half of the timeout, less the margin, ends the term.
	Margin time.Duration

	// Lock has the options of the lock that leadership is. Its Data and Requeue are the election's.
	Lock lock.Options
}

const (
	graceDefault          = 5 * time.Second
	cleanupTimeoutDefault = 5 * time.Second // lock.Options.CleanupTimeout
)

// dataBytesMax is how much a candidate's znode may say: everybody who looks reads it.
const dataBytesMax = 64 << 10

// withDefaults fills in what was left out and refuses what makes no sense, for an election at path under a
// session with that timeout.
func (o Options) withDefaults(path string, timeout time.Duration) (Options, error) {
	refuse := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("election %s: "+format, append([]any{path}, args...)...)
	}
	switch {
	case o.Grace < 0:
		return refuse("option Grace: %v is negative", o.Grace)
	case o.Margin > timeout/3:
		return refuse("option Margin: %v is more than a third of the session timeout, %v", o.Margin, timeout)
	case o.Lock.Data != nil:
		return refuse("option Lock.Data: is for Data and ID to say")
	case o.IDOnly && len(o.Data) > 0:
		return refuse("option IDOnly: leaves no room for Data")
	}
	if o.Grace == 0 {
		o.Grace = graceDefault
	}
	switch {
	case o.Margin == 0:
		o.Margin = timeout / 6
	case o.Margin < 0:
		o.Margin = 0
	}
	if o.Lock.CleanupTimeout == 0 {
		o.Lock.CleanupTimeout = cleanupTimeoutDefault
	}
	if o.Lock.Logger == nil {
		o.Lock.Logger = slog.New(slog.DiscardHandler)
	}
	o.Lock.Requeue = true
	if n := len(o.nodeData(time.Time{})); n > dataBytesMax {
		return refuse("options ID and Data: make %d bytes, more than %d", n, dataBytesMax)
	}
	return o, nil
}
