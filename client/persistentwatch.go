package client

import (
	"context"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A PersistentWatch goes on reporting events until it is closed. Up to 1024 events wait for the reader, with paths of 4 MiB together. If
// there are more, or the connection was lost for a while, events are missing; then the reader gets a gap in their place, and should
// read again what it watches.
//
// Servers before 3.9 keep only one kind of watch for each path and connection: there, a persistent watch and a
// one-shot watch of the same session on the same path disturb each other.
type PersistentWatch struct {
	s   *Session
	key watchKey

	// Guarded by s.mu.
	events []WatchEvent
	bytes  int           // of their paths
	more   chan struct{} // closed when events or err are set; replaced after an event
	err    error         // why there will be no more
}

// A WatchEvent is an event, or a gap.
type WatchEvent struct {
	zk.Event
	Gap bool // events may have been missed before this point; Event is empty
}

const (
	watchEventsMax = 1024    // events wait for the reader of a persistent watch
	watchBytesMax  = 4 << 20 // bytes are in the paths of these events, together
)

// AddWatch sets a persistent watch on path: on the znode and its list of children or, if recursive, on the znode and everything below
// it. A recursive one does not report that a list of children has changed, but the creations and deletions by which it has. Servers
// before 3.6, and those with WatchManagerOptimized, have no such watches: the error is zk.ErrUnimplemented.
func (s *Session) AddWatch(ctx context.Context, path string, recursive bool) (*PersistentWatch, error) {
	if err := zk.ValidatePath(path); err != nil {
		return nil, &OpError{Op: "watch", Path: path, Err: err}
	}
	w := &PersistentWatch{s: s, key: watchKey{zk.WatchPersistent, s.serverPath(path)}, more: make(chan struct{})}
	mode := wire.AddWatchPersistent
	if recursive {
		w.key.kind, mode = zk.WatchPersistentRecursive, wire.AddWatchPersistentRecursive
	}
	s.mu.Lock()
	if s.mu.over == nil { // otherwise the request will say so
		s.watches.persistent[w.key] = append(s.watches.persistent[w.key], w)
	}
	s.mu.Unlock()
	// After a reconnect the watch is registered already; asking once more is harmless and tells whether it worked.
	_, err := again(ctx, s, func(p *Pipeline) *Pending[struct{}] {
		return add[struct{}](p, "watch", wire.OpAddWatch, path, &wire.AddWatchRequest{Path: w.key.path, Mode: mode}, nil)
	})
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Next returns the next event, and waits for it until ctx ends. After the session's end it returns the events that are left and
// then why the session is over. If the session has moved to a server without persistent watches, the error is zk.ErrUnimplemented.
func (w *PersistentWatch) Next(ctx context.Context) (WatchEvent, error) {
	for {
		w.s.mu.Lock()
		if len(w.events) > 0 {
			ev := w.events[0]
			w.events[0] = WatchEvent{} // its path is not kept
			w.events, w.bytes = w.events[1:], w.bytes-len(ev.Path)
			w.s.mu.Unlock()
			return ev, nil
		}
		err, more := w.err, w.more
		w.s.mu.Unlock()
		if err == nil {
			select {
			case <-more:
				continue
			case <-ctx.Done():
				err = w.s.cutOff(ending.Of(ctx))
			}
		}
		return WatchEvent{}, &OpError{Op: "watch", Path: w.s.clientPath(w.key.path), Err: err}
	}
}

// Close ends the watch. If no other watch of the session is on the path, the server is told to forget it; otherwise it may keep it until
// the connection ends. Close does not wait for that.
func (w *PersistentWatch) Close() {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.watches.persistent[w.key]
	i := slices.Index(all, w)
	if i < 0 {
		return
	}
	s.watches.persistent[w.key] = slices.Delete(all, i, i+1)
	if len(all) == 1 {
		delete(s.watches.persistent, w.key)
		s.watches.removePersistent(w.key)
	}
	w.endLocked(zk.ErrClosed)
}

// removePersistent has the server forget a persistent watch. Servers before 3.9 answer zk.ErrMarshalling to the kinds of persistent
// watches, with a stack trace in their log. WatchAny, which all servers know, takes every watch of the session on the path.
// Between the two, where another watch is on the path and no event has shown yet that the server is new enough, the
// server keeps the watch until the connection ends; its events are passed over.
func (t *watches) removePersistent(key watchKey) {
	switch {
	case !t.uses(key.path):
		t.forget(watchKey{zk.WatchAny, key.path})
	case t.tellsKinds:
		t.forget(key)
	}
}

// uses reports whether anything watches path, or is about to.
func (t *watches) uses(path string) bool {
	return t.spots[watchKey{zk.WatchData, path}] != nil || t.spots[watchKey{zk.WatchChildren, path}] != nil ||
		t.persistent[watchKey{zk.WatchPersistent, path}] != nil || t.persistent[watchKey{zk.WatchPersistentRecursive, path}] != nil
}

// firePersistent delivers an event to the persistent watches that it concerns.
func (t *watches) firePersistent(ev zk.Event) {
	putEach(t.persistent[watchKey{zk.WatchPersistent, ev.Path}], ev)
	if ev.Type == zk.NodeChildrenChanged {
		return // meant for another watch below a recursive one
	}
	for key, all := range t.persistent { // not the levels of the path: these may be many, and each would be hashed with all above it
		rest, within := strings.CutPrefix(ev.Path, strings.TrimSuffix(key.path, "/"))
		if key.kind == zk.WatchPersistentRecursive && within && (rest == "" || rest[0] == '/') {
			putEach(all, ev)
		}
	}
}

func putEach(all []*PersistentWatch, ev zk.Event) {
	for _, w := range all {
		if len(w.events) < watchEventsMax && w.bytes+len(ev.Path) <= watchBytesMax {
			w.putLocked(WatchEvent{Event: ev})
		} else {
			w.events, w.bytes = nil, 0
			w.gapLocked()
		}
	}
}

func (w *PersistentWatch) putLocked(ev WatchEvent) {
	ev.Path = w.s.clientPath(ev.Path)
	w.events, w.bytes = append(w.events, ev), w.bytes+len(ev.Path)
	close(w.more)
	w.more = make(chan struct{})
}

func (w *PersistentWatch) gapLocked() {
	if n := len(w.events); n == 0 || !w.events[n-1].Gap {
		w.putLocked(WatchEvent{Gap: true})
	}
}

// endPersistent ends all persistent watches.
func (t *watches) endPersistent(why error) {
	for _, all := range t.persistent {
		for _, w := range all {
			w.endLocked(why)
		}
	}
	clear(t.persistent)
}

func (w *PersistentWatch) endLocked(why error) {
	w.err = why
	close(w.more)
}
