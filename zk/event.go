package zk

import "fmt"

// EventType says what happened to a znode. The values are those of the protocol.
type EventType int32

// The things that can happen to a watched znode.
const (
	NodeCreated         EventType = 1
	NodeDeleted         EventType = 2
	NodeDataChanged     EventType = 3
	NodeChildrenChanged EventType = 4
)

func (t EventType) String() string {
	switch t {
	case NodeCreated:
		return "created"
	case NodeDeleted:
		return "deleted"
	case NodeDataChanged:
		return "data changed"
	case NodeChildrenChanged:
		return "children changed"
	}
	return fmt.Sprintf("EventType(%d)", int32(t))
}

// An Event tells a watcher that something happened to a znode.
type Event struct {
	Type EventType
	Path string
	Zxid int64 // the transaction that caused it; -1 where the server does not say (before 3.9.0)
}

// WatchKind tells apart the lists in which a server, and a client on its behalf, keeps watches.
// The values are those of the watcher types in the protocol's removeWatches request.
type WatchKind int32

// The kinds of watches.
const (
	WatchChildren            WatchKind = 1 // one-shot: the list of children
	WatchData                WatchKind = 2 // one-shot: existence and data
	WatchAny                 WatchKind = 3 // in removals: whatever is there
	WatchPersistent          WatchKind = 4 // stays armed: data and children of one znode
	WatchPersistentRecursive WatchKind = 5 // stays armed: a znode and all below it
)
