package lock

import (
	"context"
	"errors"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Revoke asks a contender to give up what it holds, or will. It is a request and no more: a hold that has
// been revoked goes on being held, and it is up to its owner to listen to [Hold.Revoked] and to release it.
// To put somebody out there is [Break].
//
// The request is written into the contender's node. One of ours keeps its Owner and gets a word added; of
// any other the data becomes what Curator's Revoker writes, which Curator's holders listen for once they
// have been made revocable. Asking again changes nothing. It reports false if the contender had left by
// itself, and needs the permission to read and to write the node.
func Revoke(ctx context.Context, s *client.Session, c Contender) (bool, error) {
	for {
		data, stat, err := s.Get(ctx, c.Node)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return false, nil
		case err != nil:
			return false, err
		case c.Token != 0 && stat.Czxid != c.Token: // another has taken its place
			return false, nil
		case revoked(data):
			return true, nil
		}
		_, err = s.Set(ctx, c.Node, revocation(data), stat.Version)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNoNode):
			return false, nil
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrConnectionLoss): // look what is there now
			continue
		}
		return false, err
	}
}

// Revoked is closed when somebody has asked the owner of this hold to give up, by [Revoke] or with Curator's
// Revoker. The hold goes on until it is released. A request is heard within some 20 milliseconds of the grant
// also if it was made while the lock was waited for, and after a reconnect if it was made meanwhile. Whoever
// does not listen pays nothing for it: the hold's own node is watched anyway. A node that the session must
// not read (Options.ACL) cannot be watched, and such a hold does not hear of it.
func (h *Hold) Revoked() <-chan struct{} { return h.g.listen().Done() }

// Revoked is closed when somebody has asked the owner of one of them to give up; see Hold.Revoked. Which of them it
// is, those of Of tell. They go on until they are released.
func (h *Holds) Revoked() <-chan struct{} {
	h.listening.Do(func() {
		h.revoked = make(chan struct{})
		asked := sync.OnceFunc(func() { close(h.revoked) })
		for _, one := range h.flat {
			stop := context.AfterFunc(one.g.listen(), asked)
			context.AfterFunc(h.ctx, func() { stop() })
		}
	})
	return h.revoked
}

// listen returns a context that ends when the grant's owner has been asked to give up.
func (g *grant) listen() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.revoked == nil {
		g.mu.revoked, g.mu.revoke = context.WithCancel(context.Background())
		if g.mu.asked {
			g.mu.revoke()
		}
	}
	return g.mu.revoked
}

// asked notes that the grant's owner is asked to give up.
func (g *grant) asked() {
	g.mu.Lock()
	first, revoke := !g.mu.asked, g.mu.revoke
	g.mu.asked = true
	g.mu.Unlock()
	if !first {
		return
	}
	if revoke != nil {
		revoke()
	}
	g.lock.opt.Logger.Info("asked to give the lock up", "lock", g.lock.dir, "node", g.at())
}

// hear notes that the owner of the attempt's node is asked to give up what it does not have yet.
func (a *attempt) hear(node string) {
	if a.revoked == nil {
		a.revoked = map[string]bool{}
	}
	a.revoked[node] = true
}

// hear looks for a request to give up in what the grant's node says. Curator's Revoker leaves nothing else
// there: then we say again who we are, if that leaves room for the request.
func (g *grant) hear(path string, node client.Node) {
	if !revoked(node.Data) {
		return
	}
	g.asked()
	if says := revocation(g.data); string(node.Data) == revokeMessage && string(says) != revokeMessage {
		p := g.s.Pipeline()
		p.Set(path, says, node.Stat.Version) // if it fails, nothing is lost but a name
		ctx, cancel := context.WithTimeout(context.Background(), lease.Glance(g.s.Timeout()))
		defer cancel()
		p.Send(ctx)
	}
}
