package cache

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// oneShot is a source for servers without persistent watches (before 3.6, or with WatchManagerOptimized): each znode has a watch on its
// data and one on its children, which are set again whenever it is read. A goroutine waits for both.
type oneShot struct {
	f  *follower
	wg sync.WaitGroup // the goroutines that wait

	// Owned by the follower's goroutine.
	watched map[string]*nodeWatches
}

// nodeWatches are the watches of one znode.
type nodeWatches struct {
	watches []*client.Watch
	stop    chan struct{}
}

func newOneShot(f *follower) *oneShot { return &oneShot{f: f, watched: map[string]*nodeWatches{}} }

func (o *oneShot) wait(ctx context.Context) error {
	select {
	case <-o.f.wake:
		return nil
	case <-ctx.Done():
		return ending.Of(ctx)
	}
}

// drain looks at every watch, because the goroutine that waits for one that has fired may not have run yet.
func (o *oneShot) drain() {
	for path, w := range o.watched {
		if slices.ContainsFunc(w.watches, (*client.Watch).Fired) {
			o.f.mark(path, false)
		}
	}
}

func (o *oneShot) close() {
	for path := range o.watched {
		o.drop(path)
	}
	o.wg.Wait()
}

func (o *oneShot) forget(path string) {
	if path == o.f.c.path { // its watch tells when it is created; it is replaced when it fires
		return
	}
	o.drop(path)
}

// drop cancels the watches of a znode.
func (o *oneShot) drop(path string) {
	w := o.watched[path]
	if w == nil {
		return
	}
	delete(o.watched, path)
	close(w.stop)
	for _, watch := range w.watches {
		watch.Cancel()
	}
}

func (o *oneShot) read(ctx context.Context, paths []string, to reader) error {
	for _, path := range paths {
		if o.f.c.opt.Single && path != o.f.c.path {
			continue
		}
		n, names, err := o.readOne(ctx, path)
		switch {
		case err == nil && n != nil:
			if err := to.node(n); err != nil {
				return err
			}
			if err := to.below(path, names); err != nil {
				return err
			}
		case err == nil:
		case errors.Is(err, zk.ErrNoAuth) && path == o.f.c.path:
			return err
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth):
			return err
		}
	}
	return nil
}

// readOne sets the watches of a znode and reads it; nil if it is not there.
func (o *oneShot) readOne(ctx context.Context, path string) (n *Node, names []string, err error) {
	w := &nodeWatches{stop: make(chan struct{})}
	defer func() {
		o.drop(path) // the watches from before
		if len(w.watches) > 0 {
			o.keep(path, w)
		}
	}()
	if path == o.f.c.path {
		_, ok, watch, err := o.f.s.WatchExists(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		w.watches = append(w.watches, watch)
		if !ok {
			return nil, nil, nil
		}
	}
	data, stat, watch, err := o.f.s.WatchGet(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	w.watches = append(w.watches, watch)
	n = &Node{Path: path, Data: data, Stat: stat}
	if o.f.c.opt.Single || stat.EphemeralOwner > 0 { // an ephemeral znode has no children
		return n, nil, nil
	}
	names, _, watch, err = o.f.s.WatchChildren(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode):
		return n, nil, nil // of one that is gone meanwhile, its watch tells
	case err != nil:
		return nil, nil, err
	}
	w.watches = append(w.watches, watch)
	return n, names, nil
}

// keep waits for the watches of a znode.
func (o *oneShot) keep(path string, w *nodeWatches) {
	o.watched[path] = w
	var fired [3]<-chan struct{}
	for i, watch := range w.watches {
		fired[i] = watch.Done()
	}
	o.wg.Go(func() {
		select {
		case <-fired[0]:
		case <-fired[1]:
		case <-fired[2]:
		case <-w.stop:
			return
		}
		o.f.mark(path, false)
	})
}
