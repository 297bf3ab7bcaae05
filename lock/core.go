package lock

import (
	"cmp"
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A core is the part that all fair locks have in common: the queue of one directory, and claims by one set of rules. An
// RWMutex has two, one for each side.
type core struct {
	lockBase
	permits *permitCount // a semaphore's number of permits; otherwise nil
	gate    *core        // a second lock, which is held only while joining the queue and waiting in it (Curator's semaphore); otherwise nil
	cleaner *cleaner     // removes what attempts and holds leave
	orphans *orphanTimes // delay markers of holders that did not release
}

func newCore(s *client.Session, dir string, opt Options, r *queue.Rules) *core {
	c := &core{lockBase: newBase(s, dir, opt, r), orphans: &orphanTimes{}}
	c.cleaner = &cleaner{lock: &c.lockBase, clean: c.clean}
	return c
}

// takeClaims makes count claims and returns as many holds or none. If try is set, it does not wait.
func (c *core) takeClaims(ctx context.Context, count int, try bool) ([]*Hold, error) {
	leave, err := c.approach(ctx, count, try)
	if err != nil {
		return nil, err
	}
	defer leave()
	if try {
		c.cleaner.await(ctx)
	}
	for {
		a := newAttempt(c, count, try, c.opt.claimRecord(ctx, try))
		a.ask(ctx)
		holds, err := a.run(ctx)
		if err == nil || try || !c.opt.Requeue || !errors.Is(err, ErrPlaceLost) || ctx.Err() != nil { // the cause of ctx may be another lock's ErrPlaceLost
			return holds, c.withOp(err, try)
		}
	}
}

// approach does what comes before joining the queue of a semaphore: it agrees on the number of permits, and takes the
// gate. leave gives the gate back.
func (c *core) approach(ctx context.Context, count int, try bool) (leave func(), err error) {
	if c.permits.varies() && !c.permits.agreed.Load() {
		if _, err := c.permits.agree(ctx, c, count, false); err != nil {
			return nil, c.withOp(err, try)
		}
	}
	if c.gate == nil {
		return func() {}, nil
	}
	g, err := locker{c.gate}.take(ctx, try)
	if err != nil {
		if said, ok := err.(*LockError); ok { // of the gate, which is no lock of the caller's
			err = said.Err
		}
		return nil, c.withOp(err, try)
	}
	return func() {
		short, cancel := context.WithTimeout(ctx, c.opt.CleanupTimeout)
		defer cancel()
		if err := g.Release(short); err != nil && ctx.Err() == nil { // it goes in the background, or has gone
			c.opt.Logger.Warn("the lock on the way in was not released in time", "lock", c.gate.dir, "error", err)
		}
	}, nil
}

// lockBase is what lock values of all kinds have, and what holds and grants need to know of their lock.
type lockBase struct {
	s     *client.Session
	path  string  // that the lock is known by
	dir   string  // path of its directory or znode: path, but of Curator's semaphore
	opt   Options // with defaults
	rules *queue.Rules
	owner Owner  // of its nodes
	data  []byte // of a node that says no more than its owner, or Options.Data
}

func newBase(s *client.Session, dir string, opt Options, r *queue.Rules) lockBase {
	b := lockBase{s, dir, dir, opt, r, opt.Owner(), opt.Data}
	if b.data == nil {
		b.data = queue.Record{Owner: b.owner}.Encode()
	}
	return b
}

// nodeData returns the data of a node: its owner, and what r says besides. With Options.Data it is that.
func (b *lockBase) nodeData(r queue.Record) []byte {
	if b.opt.Data != nil || r.Empty() {
		return b.data
	}
	r.Owner = b.owner
	return r.Encode()
}

func (b *lockBase) base() *lockBase { return b }

func (b *lockBase) op(try bool) string {
	if try {
		return "try " + b.rules.Verb
	}
	return b.rules.Verb
}

// withOp returns err with the operation and the lock, unless it says them already.
func (b *lockBase) withOp(err error, try bool) error {
	switch err.(type) {
	case nil, *BusyError, *LockError:
		return err
	}
	return &LockError{b.op(try), b.path, err}
}

// tellAsked tells that the lock is asked for, and returns the context to go on with.
func (b *lockBase) tellAsked(ctx context.Context) context.Context {
	if b.opt.Hooks.Asked == nil {
		return ctx
	}
	return cmp.Or(b.opt.Hooks.Asked(ctx, b.path), ctx)
}

func (b *lockBase) tellWaiting(ctx context.Context, at Place) {
	if b.opt.Waiting != nil {
		b.opt.Waiting(at)
	}
	if b.opt.Hooks.Waiting != nil {
		b.opt.Hooks.Waiting(ctx, b.path, at)
	}
}

// tellRefused tells of an error, and returns it.
func (b *lockBase) tellRefused(ctx context.Context, err error) error {
	if err != nil && b.opt.Hooks.Refused != nil {
		b.opt.Hooks.Refused(ctx, b.path, err)
	}
	return err
}
