package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// A nursery has the grants of a session that have just begun. Most end soon, and a goroutine that guards one, and a
// watch on its node, would cost those more than they could tell. So one goroutine looks at all of them now and then, and
// has those guarded that have lasted. It goes when there has been nothing to look at for a while, and the nursery with it.
type nursery struct {
	s *client.Session

	// Guarded by nurseries.
	grants []youngGrant // the oldest first; some may have ended
	idle   int          // looks in a row at none
}

type youngGrant struct {
	*grant
	began time.Time
	node  string        // its claim
	own   *client.Watch // on node, armed already, or nil
}

// nurseries are those of all sessions. It is global because a session may have many entrances, each for one hold.
var nurseries = struct {
	sync.Mutex
	of map[*client.Session]*nursery
}{of: map[*client.Session]*nursery{}}

const (
	youngTick = 10 * time.Millisecond // how often the young are looked at; they have lasted after one of these
	youngIdle = 10                    // after how many looks at none the goroutine goes
	shortTerm = 100 * youngTick       // nothing is put off where a hold lasts no longer than this
)

// begin has the grant guarded, unless it ends very soon. own is a watch on its node that is armed already, or nil.
func (g *grant) begin(own *client.Watch) {
	y := youngGrant{g, time.Now(), g.at(), own} // before anybody can downgrade: the watch is on this node
	if lease.Term(g.s.Timeout()) < shortTerm || !y.nursed() {
		g.guard(y.node, own)
	}
}

// nursed puts the grant into its session's nursery. It reports false if the session is over.
func (y youngGrant) nursed() bool {
	nurseries.Lock()
	defer nurseries.Unlock()
	n := nurseryLocked(y.s)
	if n == nil {
		return false
	}
	n.grants = append(n.grants, y)
	return true
}

// nurseryLocked returns the nursery of a session, nil if the session is over.
func nurseryLocked(s *client.Session) *nursery {
	n := nurseries.of[s]
	if n == nil {
		n = &nursery{s: s}
		if !s.Go(n.run) {
			return nil
		}
		nurseries.of[s] = n
	}
	return n
}

// run looks after the young.
func (n *nursery) run(context.Context) {
	tick := time.NewTicker(youngTick)
	defer tick.Stop()
	for closed := false; !closed; {
		over := false
		select {
		case <-n.s.Done():
			over = true
		case <-tick.C:
		}
		var grown []youngGrant
		grown, closed = n.look(over)
		for _, g := range grown {
			g.guard(g.node, g.own)
		}
	}
}

// look returns those that are to be guarded from now on, which are no longer among the young; all of them if the session
// is over. It closes the nursery if the session is over or there has been nobody in it for a while.
func (n *nursery) look(over bool) (grown []youngGrant, closed bool) {
	nurseries.Lock()
	defer nurseries.Unlock()
	if n.idle++; len(n.grants) > 0 {
		n.idle = 0
	}
	n.grants = slices.DeleteFunc(n.grants, func(g youngGrant) bool {
		switch {
		case g.hasEnded():
			return true
		case over || time.Since(g.began) >= youngTick:
			grown = append(grown, g)
			return true
		}
		return false
	})
	if closed = over || n.idle >= youngIdle; closed {
		delete(nurseries.of, n.s)
	}
	return grown, closed
}
