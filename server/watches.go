package server

import (
	"github.com/lockkeeper/lockkeeper/internal/server/watch"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Watches are set by readers, many at a time, in the same hold of Server.state in which they read
// what they watch: so no change falls between. Server.watchMu guards the table, also from readers that count their
// watches without state before they set many.

// watch sets a watch for the connection.
func (c *conn) watch(path string, kind zk.WatchKind) {
	c.s.watchMu.Lock()
	defer c.s.watchMu.Unlock()
	c.s.watches.Add(watch.Watcher(c.id), path, kind)
}

// watchBytesSpared is how many bytes of watches a connection may have while the memory for watches is used up.
const watchBytesSpared = 256 << 10

// A quarter of the memory for watches is kept for connections that have little of it: no more than a sixteenth of all.
const (
	watchesKept  = 4
	watchesShare = 16
)

// mayWatch reports whether the connection may have n more watches, on paths of so many bytes.
func (c *conn) mayWatch(n, pathBytes int) bool {
	s := c.s
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	if s.watches.CountOf(watch.Watcher(c.id))+n > s.opts.WatchesMax {
		return false
	}
	most, more := s.opts.WatchBytesMax, n*watch.Bytes+pathBytes
	own, all := s.watches.BytesOf(watch.Watcher(c.id))+more, s.watches.Bytes()+more
	return own <= watchBytesSpared || all <= most-most/watchesKept || all <= most && own <= most/watchesShare
}

func (t *turn) addWatch() {
	path, mode := t.d.String(), t.d.Int32()
	if !t.decodeOK() {
		return
	}
	var kind zk.WatchKind
	switch mode {
	case wire.AddWatchPersistent:
		kind = zk.WatchPersistent
	case wire.AddWatchPersistentRecursive:
		kind = zk.WatchPersistentRecursive
	default:
		t.refuse(zk.ErrMarshalling)
		return
	}
	if !t.c.mayWatch(1, len(path)) {
		t.refuse(zk.ErrThrottled)
		return
	}
	t.c.watch(path, kind)
	b, start := t.ok()
	t.end(wire.AppendInt32(b, int32(zk.OK)), start)
}

func (t *turn) checkWatches()  { t.lookForWatch((*watch.Table).Check) }
func (t *turn) removeWatches() { t.lookForWatch((*watch.Table).Remove) }

func (t *turn) lookForWatch(look func(*watch.Table, watch.Watcher, string, zk.WatchKind) zk.Code) {
	path, kind := t.d.String(), zk.WatchKind(t.d.Int32())
	if !t.decodeOK() {
		return
	}
	t.c.s.watchMu.Lock()
	code := look(t.c.s.watches, watch.Watcher(t.c.id), path, kind)
	t.c.s.watchMu.Unlock()
	t.refuse(code) // which is OK more often than not
}

// setWatches arms again what a client had armed on its last connection. The events that it missed
// come before the answer.
func (t *turn) setWatches() {
	q, ok := t.watchesToSet()
	if !ok {
		return
	}
	t.rearm(&q)
	t.c.out.reply(t.h)
}

// watchesToSet decodes a setWatches; if the watches cannot be set, it has been answered, or the connection has ended.
func (t *turn) watchesToSet() (q wire.SetWatchesRequest, ok bool) {
	if len(t.d.Rest()) > watchBytesSpared && !t.c.mayWatch(0, watchBytesSpared+1) {
		t.endUnwatched() // there is no need to decode it
		return q, false
	}
	q.DecodeFrom(&t.d)
	if !t.decodeOK() {
		return q, false
	}
	n, bytes := 0, 0
	for _, list := range [][]string{q.Data, q.Exist, q.Child, q.Persistent, q.Recursive} {
		n += len(list)
		for _, path := range list {
			bytes += len(path)
		}
	}
	if !t.c.mayWatch(n, bytes) {
		t.endUnwatched()
		return q, false
	}
	return q, true
}

// endUnwatched ends a connection whose watches cannot be set. It gets no answer: clients do not look at the code in it, and
// would wait for events that do not come.
func (t *turn) endUnwatched() {
	s := t.c.s
	if unsaid, ok := s.quotaLog.due(s.now()); ok {
		s.log.Warn("connection closed: its watches go beyond what the server keeps", "session", sessionID(t.c.session), "unsaid", unsaid)
	}
	t.c.end()
}

// rearm sets watches, and sends the events that were missed, whatever the znode's access control list, as Apache ZooKeeper does.
func (t *turn) rearm(q *wire.SetWatchesRequest) {
	s := t.c.s
	s.watchMu.Lock()
	missed := s.watches.SetWatches(watch.Watcher(t.c.id), q, s.tree.Lookup)
	s.watchMu.Unlock()
	for _, ev := range missed {
		t.c.sendEvent(ev, nil)
	}
}
