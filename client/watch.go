package client

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Watch waits for one change of a znode: one made by WatchGet or WatchExists for a change of the znode itself, one
// made by WatchChildren for a change of its list of children. It fires once. It survives reconnects, and a change that came in between
// fires it then, unless the znode was missing before and is again. Its Done is closed without an event when the session ends.
type Watch struct {
	key watchKey

	// Guarded by s.mu until the watch has fired, then fixed.
	signal      // given when it fires or the session ends; over as well if it is cancelled, or was never set
	absent bool // the znode was not there when the watch was armed
	event  zk.Event
	err    error
}

// Done is closed when the watch has fired or the session has ended; not after Cancel, nor if the watch was never set.
func (w *Watch) Done() <-chan struct{} { return w.observe() }

// Fired reports whether Done is closed.
func (w *Watch) Fired() bool {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.given
}

// Event returns what fired the watch and the number of the connection that brought it, or the error
// that ended the session. It may be called once Done is closed.
func (w *Watch) Event() (ev zk.Event, conn uint64, err error) { return w.event, w.conn, w.err }

// Cancel ends the watch. If no other watch of the session needs it, the server is told to forget it;
// Cancel does not wait for that. Cancel a watch that is no longer waited for, or it takes memory, here and at the
// server, until its znode changes. A nil watch needs no Cancel, and takes it.
func (w *Watch) Cancel() {
	if w == nil {
		return
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.over {
		return
	}
	w.endLocked()
	if spot := s.watches.spots[w.key]; spot != nil {
		spot.watches = slices.DeleteFunc(spot.watches, func(other *Watch) bool { return other == w })
		s.watches.tidy(w.key, spot)
	}
}

// A watchKey is what the server knows a watch of this connection by.
type watchKey struct {
	kind zk.WatchKind
	path string // as the server names it
}

// A watchSpot is everything of ours that depends on one registration at the server.
type watchSpot struct {
	watches []*Watch
	pending int  // requests under way that will register here if they succeed
	armed   bool // the server of the present connection, or of the last one, has a registration
}

// watches is what a session watches. Its methods are called with Session.mu held.
type watches struct {
	spots      map[watchKey]*watchSpot
	persistent map[watchKey][]*PersistentWatch
	s          *Session

	tellsKinds bool // the server of the last connection removes persistent watches by their kind
}

// expect notes that the request which will register w has been handed over; noteOutcome follows.
func (t *watches) expect(w *Watch) {
	spot := t.spots[w.key]
	if spot == nil {
		spot = &watchSpot{}
		t.spots[w.key] = spot
	}
	spot.pending++
}

// noteOutcome is told what became of k, which was to register a watch. An exists registers it also if the znode is not there.
func (t *watches) noteOutcome(k *call, code zk.Code) {
	w := k.arm
	spot := t.spots[w.key]
	spot.pending--
	missing := code == zk.ErrNoNode && k.op == wire.OpExists
	if code == zk.OK || missing {
		spot.armed = true
		if !w.over {
			w.absent, w.conn = missing, k.conn
			spot.watches = append(spot.watches, w)
		}
	} else {
		w.endLocked()
	}
	t.tidy(w.key, spot)
}

// tidy forgets a spot that is not needed, and has the server forget it too.
func (t *watches) tidy(key watchKey, spot *watchSpot) {
	if len(spot.watches) > 0 || spot.pending > 0 {
		return
	}
	delete(t.spots, key)
	if spot.armed {
		t.forget(key)
	}
}

// forget has the server forget a watch, unless it went with the connection, or its path was too long to be sent.
func (t *watches) forget(key watchKey) {
	if t.s.mu.conn != nil && len(key.path)+rearmBytes <= t.s.opt.RequestBytesMax {
		req := &wire.WatchKindRequest{Path: key.path, Kind: key.kind}
		t.s.mu.queue = append(t.s.mu.queue, ownCall(wire.OpRemoveWatches, "remove watch", key.path, req))
		tell(t.s.wake)
	}
}

// fire delivers an event to the watches that it concerns.
func (t *watches) fire(ev zk.Event) {
	if ev.Type == zk.NodeChildrenChanged || ev.Type == zk.NodeDeleted {
		t.fireAt(watchKey{zk.WatchChildren, ev.Path}, ev)
	}
	if ev.Type != zk.NodeChildrenChanged {
		t.fireAt(watchKey{zk.WatchData, ev.Path}, ev)
	}
	t.firePersistent(ev)
}

func (t *watches) fireAt(key watchKey, ev zk.Event) {
	spot := t.spots[key]
	if spot == nil {
		return
	}
	spot.armed = false
	for _, w := range spot.watches {
		w.finish(ev, nil)
	}
	spot.watches = nil
	t.tidy(key, spot)
}

func (w *Watch) finish(ev zk.Event, err error) {
	ev.Path = w.s.clientPath(ev.Path)
	w.event, w.err = ev, err
	w.giveLocked()
}

// rearm returns the requests that register again, on a new connection, what was armed on the last
// one. Each carries about bytesMax of paths: one frame with everything could be larger than the server
// accepts, which would end the connection, again and again (samuel/go-zookeeper 167).
func (t *watches) rearm(conn uint64, lastZxid int64, bytesMax int) []*call {
	var calls []*call
	var req wire.SetWatchesRequest
	bytes := 0 // of paths in req
	cut := func() {
		if bytes > 0 {
			req.RelativeZxid = lastZxid
			calls = append(calls, ownCall(req.Op(), "register watches again", "", &req))
			req, bytes = wire.SetWatchesRequest{}, 0
		}
	}
	pack := func(list *[]string, path string) {
		if bytes+len(path) > bytesMax {
			cut()
		}
		*list = append(*list, path)
		bytes += len(path) + 4
	}
	t.tellsKinds = false
	for key, spot := range t.spots {
		spot.armed = len(spot.watches) > 0
		if !spot.armed {
			continue
		}
		present, absent := false, false
		for _, w := range spot.watches {
			w.conn = conn
			present, absent = present || !w.absent, absent || w.absent
		}
		if key.kind == zk.WatchChildren {
			pack(&req.Child, key.path)
			continue
		}
		if present {
			pack(&req.Data, key.path)
		}
		if absent {
			pack(&req.Exist, key.path)
		}
	}
	for key, all := range t.persistent {
		if key.kind == zk.WatchPersistentRecursive {
			pack(&req.Recursive, key.path)
		} else {
			pack(&req.Persistent, key.path)
		}
		for _, w := range all {
			w.gapLocked() // persistent watches are not told what they missed
		}
	}
	cut()
	return calls
}

// rearmBytesMax is how many bytes of paths a request carries that registers watches again; half of Options.RequestBytesMax if that is less.
const rearmBytesMax = 128 << 10

// rearmBytes is how much longer than the request that set a watch a request can be that registers this watch again and no other.
const rearmBytes = 27

// end tells every watch that the session is over.
func (t *watches) end(why error) {
	for _, spot := range t.spots {
		for _, w := range spot.watches {
			w.finish(zk.Event{}, why)
		}
	}
	clear(t.spots)
	t.endPersistent(why)
}
