package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ErrCannotHear is returned by Revoke of a contender of kazoo: that has no way to hear of it, and its node's data are its name.
var ErrCannotHear = errors.New("kazoo's contenders cannot be asked to give up (Break deletes the node)")

// Revoke asks a contender to give up what it holds, or will. It is a request and no more: a hold that has been revoked goes on
// being held, and its owner decides whether to listen to lock.Hold.Revoked and to release it. [Break] deletes the contender's node.
//
// The request is written into the contender's node. One of ours keeps its Owner and gets a word added; of
// any other the data becomes what Curator's Revoker writes, which Curator's holders listen for once they
// have been made revocable. Asking again changes nothing. For a contender of kazoo the error is ErrCannotHear. Revoke reports false
// if the contender had left by itself, and needs the permission to read and to write the node.
func Revoke(ctx context.Context, s *client.Session, c Contender) (bool, error) {
	if s == nil {
		return false, noSession(c.Node)
	}
	for unknown, downgraded := false, false; ; {
		data, stat, err := s.Get(ctx, c.Node)
		switch {
		case err != nil:
		case !downgraded && c.Token != 0 && stat.Czxid != c.Token: // another has taken its place
			return unknown, nil
		case queue.MadeByKazoo(zk.Base(c.Node)) && queue.ParseRecord(data).Owner == (queue.Owner{}):
			return false, fmt.Errorf("revoke %s: %w", c.Node, ErrCannotHear)
		case queue.Revoked(data):
			return true, nil
		default:
			_, err = s.Set(ctx, c.Node, queue.Revocation(data), stat.Version)
			unknown = unknown || client.MaybeApplied(err)
		}
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNoNode):
			read, ok := queue.Downgraded(c.Node)
			if !ok {
				return unknown, nil
			}
			c.Node, downgraded = read, true
		case !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrConnectionLoss): // after these, look what is there now
			return false, operr.Wrap("revoke", c.Node, err, unknown)
		}
	}
}
