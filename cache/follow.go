package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	// readRoundsMax is how often the cache reads on before it publishes, while writers leave no gap.
	readRoundsMax = 16
	// retryPause is how long the cache waits after an error that may pass.
	retryPause = time.Second
)

// A follower follows the tree with one session. It reads what events name and publishes what has come of it.
type follower struct {
	c       *Cache
	s       *client.Session
	src     source
	oneShot atomic.Bool // src has no persistent watch

	// Of what has happened since the last take.
	mu struct {
		sync.Mutex
		paths map[string]bool // that events have named; NodesMax at most
		gap   bool            // events may be missing: everything has to be read again
	}
	wake chan struct{} // holds a token when something has been marked
}

// A source reads znodes so that every later change of them is told to the follower.
type source interface {
	// read reads the znodes at paths and tells to of each that exists and may be read, as soon as it has the answer.
	read(ctx context.Context, paths []string, to reader) error
	// wait waits until an event has been marked, or ctx or the session ends.
	wait(ctx context.Context) error
	// drain marks every event that has arrived. It does not wait.
	drain()
	// forget is told of znodes that are gone.
	forget(path string)
	close()
}

// A reader is told what a source has read. An error ends the reading.
type reader interface {
	// list reports whether the names of the znode's children are needed. It is asked before node is told.
	list(n *Node) bool
	// node is told of each znode, in the order of the paths.
	node(n *Node) error
	// below is told the names of a znode's children, after node: where list has said so, and where the source lists them anyway.
	below(path string, names []string) error
}

// follow keeps the cache up to date with one session; it is called again with the next one.
func (c *Cache) follow(ctx context.Context, s *client.Session) error {
	for {
		c.begin(s)
		f := &follower{c: c, s: s, wake: make(chan struct{}, 1)}
		f.mu.paths = map[string]bool{}
		err := f.follow(ctx)
		if f.src != nil {
			f.src.close()
		}
		if ctx.Err() != nil || s.Err() != nil || permanent(err) {
			if s.Err() != nil {
				c.stale(s.Err())
			}
			return err
		}
		c.stale(err)
		c.opt.Logger.Warn("cache: reading failed, trying again", "path", c.path, "pause", retryPause, "cause", err)
		t := time.NewTimer(retryPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// permanent reports whether reading fails in this way as often as it is tried.
func permanent(err error) bool {
	return errors.Is(err, ErrLimit) || errors.As(err, new(*client.SizeError)) || errors.Is(err, zk.ErrNoAuth)
}

// follow reads the part and what changes in it, until ctx ends or something fails.
func (f *follower) follow(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { f.heedState(ctx) })
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	if err := f.watch(ctx); err != nil {
		return err
	}
	f.mark("", true)
	for {
		if err := f.readMarked(ctx); err != nil {
			return err
		}
		if f.pending() {
			continue
		}
		if err := f.src.wait(ctx); err != nil {
			return err
		}
	}
}

// catchUp waits until the server has everything that earlier sessions can have read. A new session may come to a server that
// is behind theirs, and the znodes would go back.
func (f *follower) catchUp(ctx context.Context) error {
	for !f.first() {
		err := f.s.Sync(ctx, f.c.path)
		if !errors.Is(err, zk.ErrConnectionLoss) {
			return err
		}
	}
	return nil
}

// heedState notes when there is no connection. Once there is one again, a persistent watch tells of a gap, and what is
// read then is not stale; one-shot watches have no gap.
func (f *follower) heedState(ctx context.Context) {
	for {
		state, passed := f.s.State()
		switch {
		case state.Phase == client.Disconnected:
			f.c.cutOff(state.Conn, state.Cause)
		case state.Phase == client.Connected && f.oneShot.Load():
			f.c.connected()
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return
		}
	}
}

// mark notes what an event has named, or that events may be missing.
func (f *follower) mark(path string, gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.mu.gap:
	case gap || len(f.mu.paths) >= f.c.opt.NodesMax:
		f.mu.gap = true
		clear(f.mu.paths)
	default:
		f.mu.paths[path] = true
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// pending reports whether there is something to take.
func (f *follower) pending() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.gap || len(f.mu.paths) > 0
}

// take returns what has been marked, and begins anew.
func (f *follower) take() (paths []string, gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path := range f.mu.paths {
		paths = append(paths, path)
	}
	clear(f.mu.paths)
	gap, f.mu.gap = f.mu.gap, false
	slices.SortFunc(paths, compare)
	return paths, gap
}

// readMarked reads what has been marked until nothing is left, and publishes it: then no event came before the last answer
// that is not in the view, so the view is what the server had at that moment.
func (f *follower) readMarked(ctx context.Context) error {
	before := f.c.view.Load()
	first := f.first()
	now, reread := before, false
	var conn client.State
	quiet := false
	for range readRoundsMax {
		conn, _ = f.s.State() // drain marks the gap before this connection, if there is one
		f.src.drain()
		paths, gap := f.take()
		quiet = !gap && len(paths) == 0
		if quiet {
			break
		}
		var err error
		if gap {
			if !first {
				f.c.stale(errRereading)
			}
			reread = true
			now, err = f.load(ctx)
		} else {
			now, err = f.apply(ctx, now, paths)
		}
		if err != nil {
			return err
		}
	}
	if reached, _ := f.s.State(); !quiet && reached.Conn != conn.Conn { // the gap before this connection may have been taken
		f.mark("", true)
	}
	news := difference(before, now)
	switch {
	case first:
		news = nil
	case reread:
		f.c.opt.Logger.Info("cache: read again after a gap", "path", f.c.path, "znodes", now.nodes, "changes", len(news))
		news = slices.Insert(news, 0, Change{Kind: Reread})
	case len(news) == 0:
		return nil
	}
	f.c.publish(now, news, conn.Conn)
	return nil
}

var errRereading = errors.New("events may have been missed, and everything is read again")

// first reports whether nothing has been published yet.
func (f *follower) first() bool {
	_, _, last, _ := f.c.since(0)
	return last == 0
}

// load reads the whole part, level by level.
func (f *follower) load(ctx context.Context) (*chunks, error) {
	l := &loader{f: f, old: f.c.view.Load(), next: []string{f.c.path}}
	for len(l.next) > 0 {
		level := l.next
		l.next, l.ahead = nil, 0
		if err := f.src.read(ctx, level, l); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(l.nodes, func(a, b *Node) int { return compare(a.Path, b.Path) })
	return bulk(l.nodes), nil
}

// A loader reads the whole part. It counts what it has and what it is about to read, so that the limits bound its memory.
type loader struct {
	f     *follower
	old   *chunks
	nodes []*Node
	bytes int64    // of nodes
	next  []string // the next level
	ahead int64    // bytes of next
}

func (l *loader) list(*Node) bool { return !l.f.c.opt.Single }

func (l *loader) node(n *Node) error {
	if known := l.old.get(n.Path); known != nil && known.Stat == n.Stat {
		n = known // keep one copy
	}
	l.nodes = append(l.nodes, n)
	l.bytes += n.size()
	return l.f.limit(len(l.nodes)+len(l.next), l.bytes+l.ahead)
}

func (l *loader) below(path string, names []string) error {
	if err := l.f.limit(len(l.nodes)+len(l.next)+len(names), l.bytes+l.ahead); err != nil {
		return err
	}
	for _, name := range names {
		l.next = append(l.next, zk.Join(path, name))
		l.ahead += int64(len(l.next[len(l.next)-1]))
	}
	return l.f.limit(len(l.nodes)+len(l.next), l.bytes+l.ahead)
}

// apply reads some znodes, and what is below those that come into view with children.
func (f *follower) apply(ctx context.Context, now *chunks, paths []string) (*chunks, error) {
	a := &applier{f: f, e: now.edit()}
	for len(paths) > 0 {
		found := map[string]bool{}
		a.found, a.next = found, nil
		if err := f.src.read(ctx, paths, a); err != nil {
			return nil, err
		}
		for _, path := range paths {
			if !found[path] {
				a.remove(path)
			}
		}
		if err := f.limit(a.e.nodes, a.e.bytes); err != nil {
			return nil, err
		}
		paths = a.next
	}
	return a.e.done(), nil
}

// An applier reads some znodes into an edit. All that it reads will be in the view, so the limits hold for that alone as
// well; what is gone leaves the edit later.
type applier struct {
	f     *follower
	e     *edit
	found map[string]bool // of the paths
	count int             // of all that was read
	bytes int64
	next  []string
}

// list says yes of a znode that comes into view: if it could not be read before, no event will tell of its children.
func (a *applier) list(n *Node) bool {
	return !a.f.c.opt.Single && a.e.get(n.Path) == nil && a.belongs(n.Path)
}

// belongs reports whether a znode may be in the view: its parent is. If the parent was read before it was created, the
// events of both are still to come.
func (a *applier) belongs(path string) bool {
	return path == a.f.c.path || a.e.get(zk.Parent(path)) != nil
}

func (a *applier) node(n *Node) error {
	if !a.belongs(n.Path) {
		return nil
	}
	a.found[n.Path] = true
	if known := a.e.get(n.Path); known == nil || known.Stat.Mzxid <= n.Stat.Mzxid || known.Stat.Czxid != n.Stat.Czxid {
		a.e.set(n)
	}
	a.count++
	a.bytes += n.size()
	return a.f.limit(a.count, a.bytes)
}

func (a *applier) below(path string, names []string) error {
	if a.e.get(path) == nil {
		return nil
	}
	for _, name := range names {
		if child := zk.Join(path, name); a.e.get(child) == nil {
			a.next = append(a.next, child)
		}
	}
	return a.f.limit(a.count+len(a.next), a.bytes)
}

// remove takes a znode out, and what is below it.
func (a *applier) remove(path string) {
	gone := []string{path}
	for n := range a.e.from(path) {
		if below(n.Path, path) {
			gone = append(gone, n.Path)
		} else if n.Path != path {
			break
		}
	}
	for _, path := range gone {
		a.e.remove(path)
		a.f.src.forget(path)
	}
}

// limit checks the limits of the options.
func (f *follower) limit(nodes int, bytes int64) error {
	nodesMax := f.c.opt.NodesMax
	if f.oneShot.Load() {
		nodesMax = min(nodesMax, OneShotNodesMax)
	}
	switch {
	case nodes > nodesMax:
		return &LimitError{f.c.path, "znodes", int64(nodesMax), nodesMax < f.c.opt.NodesMax}
	case bytes > f.c.opt.BytesMax:
		return &LimitError{f.c.path, "bytes", f.c.opt.BytesMax, false}
	}
	return nil
}

// watch makes the source that the server offers.
func (f *follower) watch(ctx context.Context) error {
	watch, err := f.s.AddWatch(ctx, f.c.path, !f.c.opt.Single)
	if errors.Is(err, zk.ErrUnimplemented) {
		f.src = newOneShot(f)
		f.oneShot.Store(true)
		return nil
	}
	if err != nil {
		return err
	}
	f.src = &persistent{f, watch}
	return nil
}
