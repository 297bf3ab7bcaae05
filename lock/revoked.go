package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// Revoked is closed when the owner of this hold was asked to give up, by Revoke of package inspect or with Curator's Revoker. The hold
// goes on until it is released. A request is heard within some 200 milliseconds of the grant also if it was made while the lock was
// waited for, and after a reconnect if it was made meanwhile. A holder that does not listen pays nothing for it: the hold's own node is
// watched anyway. A node that the session must not read (Options.ACL) cannot be watched, and such a hold does not hear of it.
func (h *Hold) Revoked() <-chan struct{} {
	if h.isZero() {
		return nil
	}
	return h.g.revoked.Done()
}

// Revoked is closed when the owner of one of them was asked to give up; see Hold.Revoked. Which of them it
// is, Revoked of the single holds tells. They go on until they are released.
func (h *Holds) Revoked() <-chan struct{} {
	if h.isZero() {
		return nil
	}
	return h.revoked.Done()
}

// askToGiveUp notes that the grant's owner is asked to give up.
func (g *grant) askToGiveUp() {
	if g.revoked.Err() == nil {
		g.revoke()
		g.lock.opt.Logger.Info("asked to give the lock up", "lock", g.lock.dir, "node", g.nodePath())
	}
}

// noteRevoked is for the watchdog. It looks for a request to give up in what the grant's node says. Curator's Revoker leaves nothing else.
func (g *grant) noteRevoked(path string, node client.Node) {
	if !queue.Revoked(node.Data) {
		return
	}
	bridge.Of(g.s).Tell(g.askToGiveUp) // a Logger may block, and the watchdog must not
	restoreOwner(g.s, path, g.data, node)
}

// restoreOwner writes what a node of ours said again, with the request to give up, if that is all that it says and there is room for both.
func restoreOwner(s *client.Session, path string, said []byte, node client.Node) {
	if says := queue.Revocation(said); string(node.Data) == queue.RevokeMessage && string(says) != queue.RevokeMessage {
		s.Go(func(ctx context.Context) { // the watchdog cannot wait for room in the session
			s.Set(ctx, path, says, node.Stat.Version) // if it fails, the node says less than it could
		})
	}
}
