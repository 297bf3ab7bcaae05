package election

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
)

// Options configure a candidate. The zero value of every field means its default.
type Options struct {
	// ID is what the candidate calls itself, such as the leader's address. It need not be unique. Others see it as Candidate.ID.
	ID string

	// Data is whatever else others may want to know of the leader. They see it as Candidate.Data.
	Data []byte

	// IDOnly makes the ID the whole content of the candidate's znode, as Curator's LeaderLatch writes it and expects to read it.
	// Without IDOnly the content is JSON, which Java programs see in place of an id. With it, Data must be empty.
	IDOnly bool

	// Grace is how long the work of a leader that resigns may go on before another is let lead. Default 5 s.
	Grace time.Duration

	// Margin is how long a term ends before the deadline of its lock (see lock.Hold.Remaining), if nothing is heard from the ensemble
	// any more: so long the work has to stop before the lock is given up. The larger it is, the sooner late heartbeats end a term: once
	// an answer is late by half the session timeout, less the margin. Default a sixth of the session timeout that is in force, at most
	// a third; negative means none. If a reconnect shortens the session timeout, a longer margin is cut to a third.
	Margin time.Duration

	// Lock has the options of the lock that a leader holds. Its Data must be nil, because ID and Data make it, its Deadlock 0, because
	// candidates' znodes do not say what else they hold, and its Requeue is always on. Its Logger hears of terms and campaigns.
	Lock lock.Options
}

// margin returns the margin of a term under a session with that timeout, which a reconnect may have shortened. A negative option means none.
func (o Options) margin(timeout time.Duration) time.Duration {
	return max(min(cmp.Or(o.Margin, timeout/6), timeout/3), 0)
}

// dataBytesMax is how much a candidate's znode may say: each look at the election reads it.
const dataBytesMax = 64 << 10

// withDefaults fills in what was left out and refuses contradictions, for an election under a session with that timeout.
func (o Options) withDefaults(timeout time.Duration) (Options, error) {
	switch {
	case o.Grace < 0:
		return o, fmt.Errorf("option Grace: %v is negative", o.Grace)
	case o.Margin > timeout/3:
		return o, fmt.Errorf("option Margin: %v is more than a third of the session timeout, %v (ask for a longer timeout, or for less margin)", o.Margin, timeout)
	case o.Lock.Data != nil:
		return o, errors.New("option Lock.Data: is for Data and ID to say")
	case o.Lock.Deadlock != 0:
		return o, errors.New("option Lock.Deadlock: the znode of a candidate does not say what else it holds")
	case o.IDOnly && len(o.Data) > 0:
		return o, errors.New("option IDOnly: leaves no room for Data")
	}
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	o.Lock.Logger = cmp.Or(o.Lock.Logger, slog.New(slog.DiscardHandler))
	o.Lock.Requeue, o.Lock.Data = true, []byte(o.ID)
	if !o.IDOnly {
		o.Lock.Data, _ = json.Marshal(record{o.Lock.Owner(), o.ID, o.Data}) // nothing in it can fail
	}
	if n := len(o.Lock.Data); n > dataBytesMax {
		return o, fmt.Errorf("options ID and Data: make %d bytes, more than %d", n, dataBytesMax)
	}
	return o, nil
}
