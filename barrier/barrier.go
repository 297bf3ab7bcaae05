package barrier

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
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

func (o Options) withDefaults(path string) (Options, error) {
	err := zk.ValidatePath(path)
	if path == "/" {
		err = &zk.PathError{Path: path, Reason: "is the root, which cannot be a barrier"}
	}
	if err != nil {
		return o, &client.OpError{Op: "barrier", Path: path, Err: err}
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
	opt, err := opt.withDefaults(path)
	if err != nil {
		return nil, err
	}
	return &Barrier{k, path, opt}, nil
}

// Path returns the path of the barrier's znode.
func (b *Barrier) Path() string { return b.path }

// Set closes the barrier. One that is closed already is success.
func (b *Barrier) Set(ctx context.Context) error {
	return opError("set barrier", b.path, b.k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		return create(ctx, s, b.path, b.opt)
	}))
}

// Remove opens the barrier. One that is open already is success.
func (b *Barrier) Remove(ctx context.Context) error {
	return opError("remove barrier", b.path, b.k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		return remove(ctx, s, b.path)
	}))
}

// Wait returns once the barrier is open.
func (b *Barrier) Wait(ctx context.Context) error {
	return opError("wait at barrier", b.path, b.k.Run(ctx, func(ctx context.Context, s *client.Session) error {
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
	}))
}

// opError wraps an error of another operation.
func opError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	out := &client.OpError{Op: op, Path: path, Err: err, Maybe: client.MaybeApplied(err)}
	var inner *client.OpError
	if errors.As(err, &inner) && (inner.Path == path || inner.Path == "") {
		out.Err = inner.Err
	}
	return out
}

// await waits until one of the watches fires, and cancels them.
func await(ctx context.Context, a *client.Watch, more ...*client.Watch) error {
	defer a.Cancel()
	var second <-chan struct{}
	for _, w := range more {
		defer w.Cancel()
		second = w.Done()
	}
	select {
	case <-a.Done():
		return nil
	case <-second:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// create creates a persistent znode and what is missing above it. One that is there is success, so a lost answer is
// resolved by asking again.
func create(ctx context.Context, s *client.Session, path string, opt Options) error {
	for {
		_, err := s.Create(ctx, path, opt.Data, zk.Persistent, opt.ACL)
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoNode):
			if err := s.EnsurePath(ctx, zk.Parent(path), opt.ACL); err != nil {
				return err
			}
		case !errors.Is(err, zk.ErrConnectionLoss):
			return err
		}
	}
}

// remove deletes a znode. One that is gone is success.
func remove(ctx context.Context, s *client.Session, path string) error {
	for {
		err := s.Delete(ctx, path, zk.AnyVersion)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case !errors.Is(err, zk.ErrConnectionLoss):
			return err
		}
	}
}
