package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An Unfair is a lock without a queue: one ephemeral znode, at the path itself, that names its owner. The contender
// that makes it holds the lock; the others wait until it is gone and then try to make it.
//
//   - It costs the least there is: a free lock is one request and one round trip, and nothing but the holder's znode is ever there.
//   - Each release wakes all waiters, and all but one come in vain: with n waiters it is n notifications, and n creates and n
//     reads. With 1,000 of them a hand-over takes 2,003 requests, where a Mutex takes 6 with as many as you like (BenchmarkHerd).
//   - There is no order: a contender that comes now may pass one that has waited for an hour, and nothing keeps a
//     waiter from starving.
//
// It is for locks that are rarely wanted by many: take a [Mutex] unless the number of znodes matters.
//
// A hold of it is like that of a Mutex, with one weakness. All holders' znodes have the same name, and ZooKeeper can neither check
// nor delete "the znode that transaction x has made". If the first holder's znode is deleted by hand and a second one takes the
// lock, then a release that the first one sends before it has heard of the deletion deletes the second one's znode, and the second
// one is told that it has lost the lock. For the same reason [Hold.Check] proves that the lock is held, not by which contender. In
// a multi of the holder's own session that is enough, since it fails once the session has ended; but not after a deletion by hand,
// and not in multis of other sessions. Tokens have no such weakness.
//
// Writing over the znode's data, as Curator's Revoker does, does not cost the holder its lock. But if the answer to its create
// was lost, and the data is written over before the attempt has looked, no attempt knows the znode for its own: the lock is
// closed until the session ends or the znode is deleted (inspect.Break).
type Unfair struct{ locker }

// NewUnfair returns the lock of the znode at path, which must not be "/". What is above it is made when it
// is needed, and stays. The path cannot be that of another kind of lock as well: where that has its directory, Lock
// fails with ErrNotEphemeral, and where this one has its znode, the other's Lock fails.
//
// Options.Data must be nil, because the data names the owner of the znode. Options.QueueMax and Options.Deadlock must be 0, because
// waiters have no znode. Options.Delay must be 0. Options.Requeue means nothing, since there is no place in the queue to lose.
func NewUnfair(s *client.Session, path string, opt Options) (*Unfair, error) {
	opt, err := opt.forLock(s, path)
	if err != nil {
		return nil, err
	}
	switch {
	case opt.Delay != 0:
		return nil, fmt.Errorf("lock %s: option Delay: an unfair lock has none", path)
	case opt.Deadlock != 0:
		return nil, fmt.Errorf("lock %s: option Deadlock: the waiters of an unfair lock have no znodes and are not known", path)
	case opt.QueueMax != 0:
		return nil, fmt.Errorf("lock %s: option QueueMax: the number of waiters of an unfair lock is not known", path)
	case opt.Data != nil:
		return nil, fmt.Errorf("lock %s: option Data: the data of an unfair lock's znode names its owner (leave it out)", path)
	}
	u := &unfairLock{newBase(s, path, opt, &queue.UnfairRules)}
	u.algorithm, u.cleaner = u, &cleaner{lock: &u.lockBase}
	return &Unfair{locker{&u.lockBase}}, nil
}

type unfairLock struct{ lockBase }

// takeHolds makes a claim and returns its hold; count is 1. The attempt ends also if a hook panics. A watch on its own node
// needs no cancelling: it fires when the node goes.
func (u *unfairLock) takeHolds(ctx context.Context, _ int, try bool) ([]*Hold, error) {
	if try {
		u.cleaner.await(ctx)
	}
	a := &unfairAttempt{attemptBase: newAttemptBase(&u.lockBase), u: u}
	said := cmp.Or(u.opt.claimRecord(ctx, try), &queue.Record{})
	said.ID = a.id
	a.data = u.nodeData(said)
	defer func() {
		a.watch.Cancel()
		a.end()
	}()
	return a.run(ctx, try)
}

// removeNode deletes the node, and finds out whether it is gone, and whether it was ours at all, if the answer leaves that open.
func (u *unfairLock) removeNode(ctx context.Context, g *grant) error {
	left := g.leftovers()
	err := u.s.Delete(ctx, u.dir, 0)
	ours := err == nil || client.MaybeApplied(err) // the node that we have deleted, or may have, was ours

	// A broken connection leaves open whether it is gone. A wrong version says that its data was written, or that it is another's by now.
	for errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrBadVersion) {
		var found bool
		found, err = u.removeOwn(ctx, &left)
		ours = ours || found
	}
	if err == nil && !ours {
		return zk.ErrNoNode
	}
	return err
}

// removeOwn deletes the node if it is the one that left stands for, which its creation zxid tells, or its data where the create was
// not answered. It reports whether there was such a node; with false and an error, that is not known.
func (u *unfairLock) removeOwn(ctx context.Context, left *ownNodes) (was bool, err error) {
	for {
		p := u.s.Pipeline()
		p.AwaitWrites()
		got := p.Get(u.dir)
		p.Send(ctx)
		node, err := got.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return was, nil
		case err != nil:
			return was, err
		case left.token == 0 && u.isOf(left.id, node):
			left.token = node.Stat.Czxid
		case left.token != node.Stat.Czxid:
			return was, nil
		}
		was = true
		err = u.s.Delete(ctx, u.dir, node.Stat.Version)
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return true, nil
		case errors.Is(err, zk.ErrBadVersion): // written to meanwhile
			continue
		}
		return was, err
	}
}

// isOf reports whether the attempt with that id has made the node. Its data says so, unless it was written over (see [Unfair]).
func (u *unfairLock) isOf(id queue.ID, node client.Node) bool {
	return node.Stat.EphemeralOwner == u.s.ID() && queue.ParseRecord(node.Data).ID == id
}

// clean deletes the node that left stands for, if there is one.
func (u *unfairLock) clean(ctx context.Context, left *ownNodes) error {
	if left.token == 0 && !left.unknown {
		return nil
	}
	_, err := u.removeOwn(ctx, left)
	return err
}
