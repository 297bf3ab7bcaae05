package inspect

import (
	"context"
	"errors"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/waitgraph"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Deadlocks returns the cycles of contenders that wait for each other, in the queues of the locks at paths, of the locks that waiters
// in these hold, and so on; see DeadlockError for what can be seen. It only reads. Each cycle is returned once, beginning with the
// waiter that came last; of several with the same last waiter, one is returned. Locks that the session may not read are left out. With
// more than 256 locks or 4096 contenders to look at the error is ErrTooManyWaits; then waiters do not find such cycles either.
func Deadlocks(ctx context.Context, s *client.Session, paths ...string) ([]Deadlock, error) {
	if s == nil {
		return nil, noSession(strings.Join(paths, ", "))
	}
	for {
		found, err := waitgraph.Deadlocks(ctx, s, paths)
		if !errors.Is(err, zk.ErrConnectionLoss) {
			return found, err
		}
	}
}
