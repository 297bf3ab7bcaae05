package inspect

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Break removes a contender by deleting its node, whichever session that belongs to. A holder that uses this package learns of it
// at once, or some 200 milliseconds after it was granted, and loses its hold with lock.ErrNodeDeleted. A client that does not watch
// its own node goes on working, and only its token gives it away. Break reports false if the contender had left by itself.
func Break(ctx context.Context, s *client.Session, c Contender) (bool, error) {
	if s == nil {
		return false, noSession(c.Node)
	}
	for unknown := false; ; {
		version := zk.AnyVersion
		if _, once := queue.IDOf(zk.Base(c.Node)); !once && c.Token != 0 { // another contender's node may have the name by now
			stat, ok, err := s.Exists(ctx, c.Node)
			if err != nil || !ok || stat.Czxid != c.Token {
				return unknown && err == nil, operr.Wrap("break", c.Node, err, unknown)
			}
			version = stat.Version
		}
		err := s.Delete(ctx, c.Node, version)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNoNode):
			if read, ok := queue.Downgraded(c.Node); ok {
				c.Node = read
				continue
			}
			return unknown, nil
		case errors.Is(err, zk.ErrConnectionLoss):
			unknown = true
		case !errors.Is(err, zk.ErrBadVersion): // which means: written to, or another's
			return false, operr.Wrap("break", c.Node, err, unknown)
		}
	}
}
