package zkcli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What a watch is on, as the real client calls its end.
const (
	dataWatch       = "DataWatchRemoved"
	childWatch      = "ChildWatchRemoved"
	persistentWatch = "PersistentWatchRemoved"
)

// An openWatch is a watch that has not ended.
type openWatch struct {
	kind string
	stop func()
}

// await prints the event of a watch when it comes. The goroutine belongs to the session.
func (c *CLI) await(kind, path string, w *client.Watch) {
	stopped := make(chan struct{})
	me := &openWatch{kind: kind, stop: func() { w.Cancel(); close(stopped) }}
	c.remember(path, me)
	c.session.Go(func(ctx context.Context) {
		select {
		case <-w.Done():
			c.forget(path, me)
			if ev, _, err := w.Event(); err == nil {
				c.event("SyncConnected", javaType(ev.Type), ev.Path)
			}
		case <-stopped:
		case <-ctx.Done():
		}
	})
}

func (c *CLI) remember(path string, w *openWatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches == nil {
		c.watches = map[string][]*openWatch{}
	}
	c.watches[path] = append(c.watches[path], w)
}

func (c *CLI) forget(path string, w *openWatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepLocked(path, slices.DeleteFunc(c.watches[path], func(x *openWatch) bool { return x == w }))
}

func (c *CLI) keepLocked(path string, rest []*openWatch) {
	if len(rest) == 0 {
		delete(c.watches, path)
	} else {
		c.watches[path] = rest
	}
}

func javaType(t zk.EventType) string {
	switch t {
	case zk.NodeCreated:
		return "NodeCreated"
	case zk.NodeDeleted:
		return "NodeDeleted"
	case zk.NodeDataChanged:
		return "NodeDataChanged"
	case zk.NodeChildrenChanged:
		return "NodeChildrenChanged"
	}
	return fmt.Sprint(t)
}

func (c *CLI) addWatch(ctx context.Context, in call) error {
	path := in.args[0]
	recursive := true
	switch mode, given := in.values['m']; {
	case given && mode == "PERSISTENT":
		recursive = false
	case given && mode != "PERSISTENT_RECURSIVE":
		c.errf("addWatch %s\n", verbs()["addWatch"].usage)
		c.status = failed
		return nil
	}
	watch, err := c.session.AddWatch(ctx, path, recursive)
	if err != nil {
		return err
	}
	me := &openWatch{kind: persistentWatch, stop: watch.Close}
	c.remember(path, me)
	c.session.Go(func(ctx context.Context) {
		for {
			ev, err := watch.Next(ctx)
			if errors.Is(err, zk.ErrUnimplemented) { // the session has moved to a server without persistent watches
				c.forget(path, me)
				c.errf("%s\n", ztree.Escape(message(err)))
			}
			if err != nil {
				return
			}
			if !ev.Gap {
				c.event("SyncConnected", javaType(ev.Type), ev.Path)
			}
		}
	})
	return nil
}

func (c *CLI) removeWatches(_ context.Context, in call) error {
	path := in.args[0]
	fits := func(w *openWatch) bool {
		switch {
		case in.flags['c']:
			return w.kind == childWatch
		case in.flags['d']:
			return w.kind == dataWatch
		}
		return true
	}
	c.mu.Lock()
	var gone []*openWatch
	c.keepLocked(path, slices.DeleteFunc(c.watches[path], func(w *openWatch) bool {
		if fits(w) {
			gone = append(gone, w)
			return true
		}
		return false
	}))
	c.mu.Unlock()
	if len(gone) == 0 {
		return &client.OpError{Op: "removeWatches", Path: path, Err: zk.ErrNoWatcher}
	}
	for _, w := range gone {
		w.stop()
		c.event("SyncConnected", w.kind, path)
	}
	return nil
}
