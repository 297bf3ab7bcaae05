package lock

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
)

// unfairRecipe has no line: its one claim is the znode at the lock's path.
var unfairRecipe = recipe{verb: "lock", kind: exclusive, heeds: exclusive, reenters: true, lone: true}

// An Unfair is a lock without a line: one ephemeral znode, at the path itself, that says whose it is.
// Whoever makes it holds the lock; everybody else waits until it is gone and then tries to make it.
//
//   - It costs the least there is: a free lock is one request and one round trip, and nothing but the
//     holder's znode is ever there.
//   - Each release wakes everybody who waits, and all but one come in vain: with n waiters it is n
//     notifications, and n creates and n reads. With 1,000 of them a hand-over takes 2,003 requests, where a
//     Mutex takes 6 with as many as you like (BenchmarkHerd).
//   - There is no order: whoever comes now may pass who has waited for an hour, and nothing keeps a waiter
//     from starving.
//
// It is for locks that are rarely wanted by many: take a [Mutex] unless the number of znodes matters.
//
// A hold of it is like that of a Mutex, with one weakness. All holders' znodes have the same name, and
// ZooKeeper can neither check nor delete "the znode that transaction x has made". If somebody deletes the
// first holder's znode by hand and a second one takes the lock, then a release that the first one sends before it
// has heard of the deletion deletes the second one's znode, and the second one is told that it has lost the lock.
// For the same reason [Hold.Check] proves that the lock is held, not by whom. In a multi of the holder's own session
// that is enough, since it fails once the session has ended; but not after a deletion by hand, and not in multis of
// other sessions. Tokens have no such weakness.
//
// Writing over the znode's data, as Curator's Revoker does, does not cost the holder its lock. But where the answer
// to its create was lost as well, the holder knows its znode by the session alone: nothing else of the same
// client.Session may make an ephemeral znode at the path.
type Unfair struct{ e *entrance }

// NewUnfair returns the lock of the znode at path, which must not be "/". What is above it is made when it
// is needed, and stays. The path cannot be that of another kind of lock as well: where that has its directory, Lock
// fails with ErrNotEphemeral, and where this one has its znode, the other's Lock fails.
//
// Options.Data must be nil, because the data is what tells whose the znode is. Options.QueueMax and
// Options.Deadlock must be 0, because nobody knows who waits, or how many. Options.Delay must be 0. Options.Requeue
// means nothing, since there is no place in line to lose.
func NewUnfair(s *client.Session, path string, opt Options) (*Unfair, error) {
	opt, err := opt.withDefaults(path)
	if err != nil {
		return nil, err
	}
	if err := opt.withoutDelay(path); err != nil {
		return nil, err
	}
	switch {
	case opt.Deadlock != 0:
		return nil, fmt.Errorf("lock %s: option Deadlock: who waits for an unfair lock cannot be found", path)
	case opt.QueueMax != 0:
		return nil, fmt.Errorf("lock %s: option QueueMax: nobody knows how many wait for an unfair lock", path)
	case opt.Data != nil:
		return nil, fmt.Errorf("lock %s: option Data: an unfair lock's znode has to say whose it is", path)
	}
	return &Unfair{newEntrance(s, path, opt, &unfairRecipe)}, nil
}

// Path returns the path of the lock's znode.
func (u *Unfair) Path() string { return u.e.dir }

// Lock waits for the lock and returns a hold of it. ctx bounds the waiting, not the hold. Exactly one of
// hold and error is not nil. It re-enters as [Mutex.Lock] does.
func (u *Unfair) Lock(ctx context.Context) (*Hold, error) { return u.e.lock(ctx) }

// TryLock returns a hold if nobody else has the lock, and otherwise a *BusyError that names the holder.
func (u *Unfair) TryLock(ctx context.Context) (*Hold, error) { return u.e.try(ctx) }

// Do runs f while holding the lock; see [Mutex.Do].
func (u *Unfair) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return u.e.do(ctx, f)
}
