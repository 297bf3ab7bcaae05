package client

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Stream is a persistent watch: it goes on reporting events until it is closed. Up to 1024 events wait for the
// reader. If there are more, or the connection was lost for a while, events are missing; then the reader gets a gap in
// their place, and should read again what it watches.
//
// Servers before 3.9 keep only one kind of watch for each path and connection: there, a persistent watch and a
// one-shot watch of the same session on the same path disturb each other.
type Stream struct {
	s   *Session
	key watchKey

	// Guarded by s.mu.
	events []StreamEvent
	more   chan struct{} // closed when events or err are set; replaced when they are taken
	err    error         // why there will be no more
}

// A StreamEvent is an event, or a gap.
type StreamEvent struct {
	zk.Event
	Gap bool // events may have been missed before this point; Event is empty
}

// streamEventsMax is how many events wait for the reader of a stream.
const streamEventsMax = 1024

// Watch sets a persistent watch on path (server 3.6 or later): on the znode and its list of children or, if recursive,
// on the znode and everything below it. A recursive one does not report that a list of children has changed, but the
// creations and deletions by which it has.
func (s *Session) Watch(ctx context.Context, path string, recursive bool) (*Stream, error) {
	if err := zk.ValidatePath(path); err != nil {
		return nil, &OpError{Op: "watch", Path: path, Err: err}
	}
	st := &Stream{s: s, key: watchKey{zk.WatchPersistent, s.serverPath(path)}, more: make(chan struct{})}
	mode := wire.AddWatchPersistent
	if recursive {
		st.key.kind, mode = zk.WatchPersistentRecursive, wire.AddWatchPersistentRecursive
	}
	s.mu.Lock()
	if s.mu.over == nil { // otherwise the request will say so
		s.watches.streams[st.key] = append(s.watches.streams[st.key], st)
	}
	s.mu.Unlock()
	// After a reconnect the stream is registered already; asking once more is harmless and tells whether it worked.
	_, err := again(ctx, s, func(p *Pipeline) *Pending[struct{}] {
		return add[struct{}](p, "watch", wire.OpAddWatch, path, &wire.AddWatchRequest{Path: st.key.path, Mode: mode}, nil)
	})
	if err != nil {
		st.Close()
		return nil, err
	}
	return st, nil
}

// Next returns the next event, and waits for it until ctx ends. After the session's end it returns the events that are
// left and then the *SessionError. If the session has moved to a server without persistent watches, the error is
// zk.ErrUnimplemented.
func (st *Stream) Next(ctx context.Context) (StreamEvent, error) {
	for {
		st.s.mu.Lock()
		if len(st.events) > 0 {
			ev := st.events[0]
			st.events = st.events[1:]
			st.s.mu.Unlock()
			return ev, nil
		}
		err, more := st.err, st.more
		st.s.mu.Unlock()
		if err != nil {
			return StreamEvent{}, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return StreamEvent{}, st.wrap(st.s.endOf(ctx))
		}
	}
}

// Close ends the stream. If no other stream of the session needs the watch, the server is told to
// forget it; Close does not wait for that.
func (st *Stream) Close() {
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	streams := s.watches.streams[st.key]
	i := slices.Index(streams, st)
	if i < 0 {
		return
	}
	s.watches.streams[st.key] = slices.Delete(streams, i, i+1)
	if len(streams) == 1 {
		delete(s.watches.streams, st.key)
		if s.mu.conn != nil {
			s.watches.removeStream(st.key)
		}
	}
	st.endLocked(st.wrap(zk.ErrClosed))
}

// removeStream has the server forget a persistent watch. Servers before 3.9 answer zk.ErrMarshalling to the kinds of persistent
// watches, with a stack trace in their log. WatchAny, which all servers know, takes every watch of the session on the path.
// Between the two, where another watch is on the path and no event has shown yet that the server is new enough, the
// server keeps the watch until the connection ends; its events are passed over.
func (t *watches) removeStream(key watchKey) {
	switch {
	case !t.uses(key.path):
		t.send(removeCall(watchKey{zk.WatchAny, key.path}))
	case t.tellsKinds:
		t.send(removeCall(key))
	}
}

// uses reports whether anything watches path, or is about to.
func (t *watches) uses(path string) bool {
	return t.spots[watchKey{zk.WatchData, path}] != nil || t.spots[watchKey{zk.WatchChildren, path}] != nil ||
		t.streams[watchKey{zk.WatchPersistent, path}] != nil || t.streams[watchKey{zk.WatchPersistentRecursive, path}] != nil
}

// fireStreams delivers an event to the persistent watches that it concerns.
func (t *watches) fireStreams(ev zk.Event) {
	putEach(t.streams[watchKey{zk.WatchPersistent, ev.Path}], ev)
	if ev.Type == zk.NodeChildrenChanged {
		return // meant for another watch below a recursive one
	}
	for path := ev.Path; ; path = zk.Parent(path) {
		putEach(t.streams[watchKey{zk.WatchPersistentRecursive, path}], ev)
		if path == "/" {
			return
		}
	}
}

func putEach(streams []*Stream, ev zk.Event) {
	for _, st := range streams {
		if len(st.events) >= streamEventsMax {
			st.events = st.events[:0]
			st.gapLocked()
			continue
		}
		ev := ev
		ev.Path = st.s.clientPath(ev.Path)
		st.putLocked(StreamEvent{Event: ev})
	}
}

func (st *Stream) putLocked(ev StreamEvent) {
	st.events = append(st.events, ev)
	st.tellLocked()
}

func (st *Stream) gapLocked() {
	if n := len(st.events); n == 0 || !st.events[n-1].Gap {
		st.putLocked(StreamEvent{Gap: true})
	}
}

// endStreams ends all streams.
func (t *watches) endStreams(why func(*Stream) error) {
	for _, streams := range t.streams {
		for _, st := range streams {
			st.endLocked(why(st))
		}
	}
	clear(t.streams)
}

func (st *Stream) wrap(err error) error {
	return &OpError{Op: "watch", Path: st.s.clientPath(st.key.path), Err: err}
}

func (st *Stream) endLocked(why error) {
	st.err = why
	st.tellLocked()
}

func (st *Stream) tellLocked() {
	close(st.more)
	st.more = make(chan struct{})
}
