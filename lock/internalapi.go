package lock

import (
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// What package lock offers to other packages of this module, and not to its users.
func init() {
	bridge.ProvideLocks(newLatch, candidates, onBehalf)
	bridge.IsLoss = func(err error) bool { return errors.Is(err, ErrLost) }
	bridge.SharedHold = sharedHold
}

// sharedHold is bridge.SharedHold.
func sharedHold(hold any) string {
	h, ok := hold.(*Hold)
	if !ok || h.isZero() {
		return ""
	}
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	switch h.g.mu.mode {
	case queue.Permit:
		return "a permit of a semaphore"
	case queue.Shared:
		return "a read lock"
	}
	return ""
}

func newLatch(session any, path string, options any) (any, error) {
	s := session.(*client.Session)
	opt, err := options.(Options).forLock(s, path)
	if err != nil {
		return nil, err
	}
	return locker{&newFairLock(s, path, opt, &queue.ElectionRules).lockBase}, nil
}

func candidates(names []string) []string { return queue.Parse(names, queue.Candidacy).Names() }

func onBehalf(options any, pid int, user string, under []string) {
	o := options.(*Options)
	o.pid, o.user, o.underNodes = pid, user, under
}
