package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ErrDeadlock: a waiter gave up because it waited for itself. The error is a *DeadlockError.
var ErrDeadlock = errors.New("deadlock")

// A Wait is one contender that waits for another. Its owner may hold other locks meanwhile, by other nodes.
type Wait struct {
	Path   string    // of the lock
	Waiter Contender // that waits in its line
	For    Contender // ahead in the same line, that it waits for; a holder, or one that waits itself
}

// A Deadlock is a circle of waits: the For of each cannot go on before the next wait is over, and the For of the last
// not before the first is. Either For is itself the Waiter of the next wait, or it holds the lock, and its owner waits
// elsewhere as that Waiter. Where the circle goes through a semaphore, For is one of several who are all stuck.
type Deadlock []Wait

func (d Deadlock) String() string {
	var b strings.Builder
	for i, w := range d {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s waits for %s behind %s", describe(w.Waiter), w.Path, describe(w.For))
	}
	return b.String()
}

func describe(c Contender) string { return fmt.Sprintf("%s [%s]", c.Who(), zk.Base(c.Node)) }

// A DeadlockError says that a waiter gave up because it stood in a circle of contenders that waited for each other,
// and was the last to come of those in it that look for circles (Options.Deadlock). Whoever gets it should release
// what it holds and begin again; to lock the same path again would only close the circle again.
// errors.Is(err, ErrDeadlock) holds.
//
// Circles are found from the znodes alone: the node of a waiter names the holds that it waits under, those whose
// contexts the context of its Lock derives from, and those of Options.Under. Locks that are held in any other way, by
// other clients, or with Options.Data, are not seen as held by a waiter.
//
// There are no false alarms: all nodes of the circle were there at one instant, and none of the waiters had been
// granted (for other clients' nodes, going by the rules of their recipes). But a circle may be about to open by
// itself: a waiter may give up for reasons of its own, and one whose process has died waits until its session
// expires. If Options.Deadlock is longer than the session timeouts, no deadlock is reported because of the dead.
//
// A semaphore is taken into account if its number of permits is stored with it and has never been changed. Paths are
// compared as they are, so all who take part must see the same names, under the same chroot.
type DeadlockError struct {
	Path     string // of the lock that was waited for
	Deadlock Deadlock
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("waiting for %s would never end: deadlock of %d: %v", e.Path, len(e.Deadlock), e.Deadlock)
}

// Is makes errors.Is(err, ErrDeadlock) hold.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// Deadlocks returns the circles of contenders that wait for each other and that touch one of the locks at paths,
// wherever else they lead; see DeadlockError for what can be seen. It only reads. Each circle is returned once,
// beginning with the waiter that came last. Locks that the session may not read are left out. With more than 256 locks
// or 4096 contenders to look at the error is ErrTooManyWaits; then waiters do not find such circles either.
func Deadlocks(ctx context.Context, s *client.Session, paths ...string) ([]Deadlock, error) {
	for {
		found, err := deadlocks(ctx, s, paths)
		if !errors.Is(err, zk.ErrConnectionLoss) {
			return found, err
		}
	}
}

// deadlocks is Deadlocks, unless the connection breaks.
func deadlocks(ctx context.Context, s *client.Session, paths []string) ([]Deadlock, error) {
	seen := newSurvey(ctx, s, nil)
	suspects, err := seen.circles(paths)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	again := newSurvey(ctx, s, seen)
	var found []Deadlock
	for _, suspect := range suspects {
		d, err := again.circle(suspect.dir, suspect.stem, (*party).youngerThan)
		if err != nil {
			return nil, err
		}
		if d != nil {
			found = append(found, d)
		}
	}
	return found, nil
}

func (p *party) youngerThan(other *party) bool { return p.czxid > other.czxid }

// yieldsBefore reports whether the party gives up if it and other are in one circle.
func (p *party) yieldsBefore(other *party) bool { return p.yields && p.youngerThan(other) }
