package lock

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// PermitsMax is the largest number of permits of a semaphore. A waiter watches that many znodes.
const PermitsMax = queue.PermitsMax

// A permitCount is a semaphore's number of permits: how many claims in its queue may be granted at once. It is a fixed
// number, or what is stored in the data of the directory.
type permitCount struct {
	n      int         // that the semaphore was made with; 0: whatever is stored
	stored bool        // the number is that in the directory's data
	adopts bool        // it takes a stored number that is not n
	agreed atomic.Bool // a stored number has been accepted once; from then on any is followed
}

// varies reports whether the number has to be asked for.
func (p *permitCount) varies() bool { return p != nil && p.stored }

// accept returns the number of permits in force, where stored is the number that is stored, or 0 for none. The error says why an
// attempt that needs count permits is refused. Another number than the semaphore was made with is refused, unless that is to be
// adopted or a number has been accepted before: an operator may change it.
func (p *permitCount) accept(stored, count int) (int, error) {
	n := cmp.Or(stored, p.n)
	if p.n != 0 && p.n != n && !p.adopts && !p.agreed.Load() {
		return 0, &ConflictError{Want: p.n, Stored: stored}
	}
	if stored != 0 {
		p.agreed.Store(true)
	}
	switch {
	case n == 0:
		return 0, ErrNoPermits
	case count > n:
		return 0, &TooManyError{Asked: count, Permits: n}
	}
	return n, nil
}

// agree sees to it that a number is stored that the semaphore accepts, and returns what is stored. A directory that is not there is
// made with the number. One that is there gets it from the first attempt that is granted permits: a refused attempt leaves no
// number behind, in the directory of a mutex for example.
func (p *permitCount) agree(ctx context.Context, f *fairLock, count int, granted bool) (int, error) {
	stored, err := updateStoredPermits(ctx, f, func(stored int, missing bool) (int, error) {
		n, err := p.accept(stored, count)
		if missing || granted {
			stored = n
		}
		return stored, err
	})
	if err == nil && stored != 0 {
		p.agreed.Store(true)
	}
	return stored, err
}

// updateStoredPermits stores the number that choose returns when it is given the one that is stored, 0 if there is none, and
// whether there is not even a directory; and returns it. The directory is persistent, so that the number outlives the claims.
func updateStoredPermits(ctx context.Context, f *fairLock, choose func(stored int, missing bool) (int, error)) (_ int, err error) {
	doubt := false // a number was sent, and the answer was lost
	defer func() {
		if doubt {
			err = operr.Wrap("store permits", f.dir, err, true)
		}
	}()
	for {
		p := f.s.Pipeline()
		p.Sync(f.dir)
		got := p.Get(f.dir)
		p.Send(ctx)
		node, err := got.Wait(ctx)
		missing := errors.Is(err, zk.ErrNoNode)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue
		case err != nil && !missing:
			return 0, err
		}
		stored, err := f.storedPermits(node.Data)
		if err != nil {
			return 0, err
		}
		n, err := choose(stored, missing)
		if err != nil || n == stored {
			return n, err
		}
		if missing {
			_, err = f.s.CreateOnce(ctx, f.dir, queue.EncodePermits(n), zk.Persistent, f.opt.ParentACL)
		} else {
			_, err = f.s.Set(ctx, f.dir, queue.EncodePermits(n), node.Stat.Version)
		}
		doubt = doubt || client.MaybeApplied(err)
		switch {
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrConnectionLoss),
			errors.Is(err, zk.ErrNoNode) && !missing: // otherwise the chroot is missing. Another write was faster, perhaps an earlier one of this call: look again
			continue
		}
		return n, err
	}
}

// storedPermits reads the data of the directory.
func (f *fairLock) storedPermits(data []byte) (int, error) {
	if queue.KazooPermits(data) > 0 {
		return 0, &KindError{f.path, queue.KindKazooSemaphore}
	}
	return queue.ParsePermits(data)
}

// knownPermits is what an attempt knows of the number of permits.
type knownPermits struct {
	n     int                          // as last read; 0 if none is stored
	read  *client.Pending[client.Node] // a read of the directory whose answer is yet to be looked at; nil if there is none
	watch *client.Watch                // on the directory's data, set by that read or an earlier one; nil if there is none
}

// requestPermits adds the read of the number of permits, where there is one to read.
func (a *attempt) requestPermits(p *client.Pipeline) {
	if a.lock.permits.varies() {
		a.knownPermits.cancel()
		a.knownPermits.read = p.Get(a.lock.dir)
	}
}

// watchPermits is requestPermits with a watch, unless there is one.
func (a *attempt) watchPermits(p *client.Pipeline) {
	if a.lock.permits.varies() && a.knownPermits.watch == nil {
		a.knownPermits.read, a.knownPermits.watch = p.WatchGet(a.lock.dir)
	}
}

// readPermits returns how many claims of a semaphore may be granted at once.
func (a *attempt) readPermits(ctx context.Context) (int, error) {
	if a.knownPermits.read != nil {
		node, err := a.knownPermits.read.Wait(ctx)
		if err != nil {
			return 0, err
		}
		a.knownPermits.read = nil
		if a.knownPermits.n, err = a.lock.storedPermits(node.Data); err != nil {
			return 0, err
		}
	}
	return a.lock.permits.accept(a.knownPermits.n, a.count)
}

// current reports whether the number as last read is still stored, as far as has been heard on this connection.
func (p *knownPermits) current(conn uint64) bool {
	return p.watch != nil && bridge.Conn(p.watch) == conn && !p.watch.Fired()
}

func (p *knownPermits) cancel() {
	p.watch.Cancel()
	p.watch = nil
}
