package ztree

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Change is something that has happened to a watched znode.
type Change struct {
	Type string // created, deleted, changed, children; "gap" if changes may have been missed
	Path string
	Zxid int64 // 0 where the server does not say
	Node *Node // the znode after the change, if it was asked for and is there
}

// Watch reports changes of a znode, or of all below it as well, until ctx ends or tell returns an error. With data, a
// change comes with what the znode holds by the time that it is read. ready, which may be nil, is called once the
// watch is set.
func Watch(ctx context.Context, s *client.Session, path string, recursive, data bool, ready func(), tell func(Change) error) error {
	watch, err := s.AddWatch(ctx, path, recursive)
	if err != nil {
		return err
	}
	defer watch.Close()
	if ready != nil {
		ready()
	}
	for {
		ev, err := watch.Next(ctx)
		if err != nil {
			return err
		}
		c := Change{Type: "gap", Path: path}
		if !ev.Gap {
			c.Type, c.Path, c.Zxid = changeName(ev.Type), ev.Path, max(ev.Zxid, 0)
			if data && (ev.Type == zk.NodeCreated || ev.Type == zk.NodeDataChanged) {
				b, st, err := s.Get(ctx, ev.Path)
				switch {
				case err == nil:
					c.Node = &Node{Path: ev.Path, Data: b, Stat: st}
				case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth):
					return err
				}
			}
		}
		if err := tell(c); err != nil {
			return err
		}
	}
}

func changeName(t zk.EventType) string {
	switch t {
	case zk.NodeCreated:
		return "created"
	case zk.NodeDeleted:
		return "deleted"
	case zk.NodeDataChanged:
		return "changed"
	}
	return "children"
}
