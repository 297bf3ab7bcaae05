package watch

import (
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// SetWatches sets again, after a reconnect, what the client had set before, and returns the events
// that it missed, with zxid −1. They are to be sent before the answer. look finds a znode's stat.
// A missed event uses its watch up; persistent watches miss events for good.
func (t *Table) SetWatches(w Watcher, req *wire.SetWatchesRequest, look func(path string) (zk.Stat, bool)) []zk.Event {
	var missed []zk.Event
	miss := func(typ zk.EventType, path string) {
		missed = append(missed, zk.Event{Type: typ, Path: path, Zxid: -1})
	}
	for _, path := range req.Data {
		switch stat, ok := look(path); {
		case !ok:
			miss(zk.NodeDeleted, path)
		case stat.Mzxid > req.RelativeZxid:
			miss(zk.NodeDataChanged, path)
		default:
			t.Add(w, path, zk.WatchData)
		}
	}
	for _, path := range req.Exist {
		if _, ok := look(path); ok {
			miss(zk.NodeCreated, path)
		} else {
			t.Add(w, path, zk.WatchData)
		}
	}
	for _, path := range req.Child {
		switch stat, ok := look(path); {
		case !ok:
			miss(zk.NodeDeleted, path)
		case stat.Pzxid > req.RelativeZxid:
			miss(zk.NodeChildrenChanged, path)
		default:
			t.Add(w, path, zk.WatchChildren)
		}
	}
	for _, path := range req.Persistent {
		t.Add(w, path, zk.WatchPersistent)
	}
	for _, path := range req.Recursive {
		t.Add(w, path, zk.WatchPersistentRecursive)
	}
	return missed
}
