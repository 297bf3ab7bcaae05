package barrier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Options configure a Barrier or a Double. The zero value of every field means its default.
type Options struct {
	// Data is stored in the znode that is made. Default: nothing.
	Data []byte

	// ACL is the access control list of znodes that are made. Default: every client may do anything.
	ACL []zk.ACL

	// CleanupTimeout bounds how long an Enter that fails takes to remove its znode. Default 5 s.
	CleanupTimeout time.Duration
}

const defaultCleanupTimeout = 5 * time.Second

func (o Options) withDefaults(k *client.Keeper, path string) (Options, error) {
	if err := operr.NoKeeper("barrier", path, k); err != nil {
		return o, err
	}
	err := zk.ValidatePath(path)
	if path == "/" {
		err = &zk.PathError{Path: path, Reason: "is the root, which cannot be a barrier"}
	}
	if err != nil {
		return o, &client.OpError{Op: "barrier", Path: path, Err: err}
	}
	if o.CleanupTimeout < 0 {
		return o, &client.OpError{Op: "barrier", Path: path, Err: fmt.Errorf("option CleanupTimeout: %v is negative", o.CleanupTimeout)}
	}
	if o.CleanupTimeout == 0 {
		o.CleanupTimeout = defaultCleanupTimeout
	}
	return o, nil
}

// A Barrier is closed while its znode is there. It is safe for use by many goroutines.
type Barrier struct {
	k    *client.Keeper
	path string
	opt  Options
}

// New returns the barrier at path. It asks the server nothing.
func New(k *client.Keeper, path string, opt Options) (*Barrier, error) {
	opt, err := opt.withDefaults(k, path)
	if err != nil {
		return nil, err
	}
	return &Barrier{k, path, opt}, nil
}

// Path returns the path of the barrier's znode.
func (b *Barrier) Path() string { return b.path }

// Set closes the barrier. One that is closed already is success.
//
// If the answer to the request is lost, Set looks before it asks again. If the barrier is open and may have been closed in
// between, so that another client has opened it, it stays open, and client.MaybeApplied is true of the error.
func (b *Barrier) Set(ctx context.Context) error {
	c := closing{b: b}
	err := b.k.Run(ctx, c.run)
	return operr.Wrap("set barrier", b.path, err, c.doubt)
}

// A closing is one call of Set, through all its sessions.
type closing struct {
	b      *Barrier
	doubt  bool    // the answer to a create was lost
	before zk.Stat // of the barrier's parent before that create
}

var errMaybeOpened = errors.New("the answer was lost, and another client may have opened the barrier since")

func (c *closing) run(ctx context.Context, s *client.Session) error {
	path, parent := c.b.path, zk.Parent(c.b.path)
	for awaited := false; ; {
		var err error
		if c.doubt || awaited { // the create may still be carried out, or an earlier delete be on its way
			awaited, err = true, s.AwaitWrites(ctx)
		} else {
			err = catchUp(ctx, s, path)
		}
		if err != nil {
			return err
		}
		_, closed, err := s.Exists(ctx, path)
		switch {
		case err == nil && closed && !awaited:
			awaited = true
			continue
		case err != nil || closed:
			return err
		}
		now, there, err := s.Exists(ctx, parent) // behind the look at the barrier: it has what led to that
		switch {
		case err != nil:
			return err
		case c.doubt && !neverClosed(c.before, now):
			return &client.OpError{Op: "create", Path: path, Err: errMaybeOpened, Maybe: true}
		case !there:
			if err := s.EnsurePath(ctx, parent, c.b.opt.ACL); err != nil {
				return err
			}
			continue
		}
		c.before = now
		_, err = s.Create(ctx, path, c.b.opt.Data, zk.Persistent, c.b.opt.ACL)
		c.doubt = client.MaybeApplied(err)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrConnectionLoss): // look again
		default:
			return err
		}
	}
}

// neverClosed reports whether a barrier that was open at both times was certainly not closed in between. To close and to
// open it creates a child and deletes one: then the parent's list has changed more often than its length tells.
func neverClosed(before, now zk.Stat) bool {
	grown := now.NumChildren - before.NumChildren
	return before.Czxid == now.Czxid && now.Cversion-before.Cversion == max(grown, -grown)
}

// Remove opens the barrier. One that is open already is success. If the answer to the request is lost, Remove looks whether
// the barrier is still the same, so it does not open one that another client has closed anew.
func (b *Barrier) Remove(ctx context.Context) error {
	var asked int64 // czxid of the znode that we have asked to delete
	doubt := false  // the answer was lost
	err := b.k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		for awaited := false; ; {
			var err error
			if doubt || awaited { // the znode may be another one by now, or an earlier create may still be on its way
				awaited, err = true, s.AwaitWrites(ctx)
			} else {
				err = catchUp(ctx, s, b.path)
			}
			if err != nil {
				return err
			}
			stat, closed, err := s.Exists(ctx, b.path)
			switch {
			case err == nil && !closed && !awaited:
				awaited = true
				continue
			case err != nil || !closed || asked != 0 && stat.Czxid != asked:
				return err
			}
			asked = stat.Czxid
			err = s.Delete(ctx, b.path, zk.AnyVersion)
			doubt = client.MaybeApplied(err)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				return nil
			case !errors.Is(err, zk.ErrConnectionLoss):
				return err
			}
		}
	})
	return operr.Wrap("remove barrier", b.path, err, doubt)
}

// Wait returns once the barrier is open.
func (b *Barrier) Wait(ctx context.Context) error {
	return operr.Wrap("wait at barrier", b.path, b.k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		if err := catchUp(ctx, s, b.path); err != nil {
			return err
		}
		for {
			_, closed, w, err := s.WatchExists(ctx, b.path)
			if err != nil {
				return err
			}
			if !closed {
				w.Cancel()
				return nil
			}
			if err := await(ctx, w); err != nil {
				return err
			}
		}
	}), false)
}

// catchUp waits until the server has everything that was written before, by earlier sessions of ours among others. A new
// session may come to a server that is behind.
func catchUp(ctx context.Context, s *client.Session, path string) error {
	return repeated(func() error { return s.Sync(ctx, path) })
}

// repeated makes a request until there is an answer to it.
func repeated(request func() error) error {
	for {
		if err := request(); !errors.Is(err, zk.ErrConnectionLoss) {
			return err
		}
	}
}

// await waits until one of the watches, three at most, fires, and cancels them.
func await(ctx context.Context, watches ...*client.Watch) error {
	var done [3]<-chan struct{}
	for i, w := range watches {
		defer w.Cancel()
		done[i] = w.Done()
	}
	select {
	case <-done[0]:
		return nil
	case <-done[1]:
		return nil
	case <-done[2]:
		return nil
	case <-ctx.Done():
		return ending.Of(ctx)
	}
}
