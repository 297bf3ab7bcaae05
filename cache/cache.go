package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Options configure a Cache. The zero value of every field means its default.
type Options struct {
	// Single caches the znode at the path alone, without what is below it. Default: the whole subtree.
	Single bool

	// NodesMax is the largest number of znodes. If there are more, the cache ends with a *LimitError. While the whole part
	// is read, znodes that the session may not read count as well. Default 1,000,000.
	NodesMax int

	// BytesMax is the largest number of bytes of paths and data together. If there are more, the cache ends with a
	// *LimitError. Each znode takes up to 300 bytes of memory beside them, and the changes that are kept for slow readers up to
	// 40 MiB, or what the last ones need. While znodes are read, up to 512 answers that are not counted yet come on top: 512 MiB
	// where each znode has 1 MiB. Default 256 MiB.
	BytesMax int64

	// Logger gets a line for whatever an operator should know, such as a part that is read again. Default: silent.
	Logger *slog.Logger
}

const (
	defaultNodesMax = 1_000_000
	defaultBytesMax = 256 << 20

	// OneShotNodesMax is the largest number of znodes that are cached from a server without persistent watches.
	OneShotNodesMax = 20_000

	// logMax is how many changes are kept for readers that are not up to date, and logBytesMax how many bytes of paths and data
	// they may have; twice as much between two clearings. The newest ones are kept in any case.
	logMax      = 4096
	logBytesMax = 16 << 20
)

func (o Options) withDefaults(path string) (Options, error) {
	if err := zk.ValidatePath(path); err != nil {
		return o, &client.OpError{Op: "cache", Path: path, Err: err}
	}
	switch {
	case o.NodesMax < 0:
		return o, fmt.Errorf("cache %s: option NodesMax: %d is negative", path, o.NodesMax)
	case o.BytesMax < 0:
		return o, fmt.Errorf("cache %s: option BytesMax: %d is negative", path, o.BytesMax)
	}
	if o.NodesMax == 0 {
		o.NodesMax = defaultNodesMax
	}
	if o.BytesMax == 0 {
		o.BytesMax = defaultBytesMax
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// ErrLimit is returned when the cached part of the tree is larger than the options allow. The error is a *LimitError.
var ErrLimit = errors.New("the cached part of the tree is too large")

// A LimitError says that the cached part of the tree is larger than the options allow.
type LimitError struct {
	Path  string // of the cache
	What  string // "znodes" or "bytes"
	Limit int64

	oneShot bool // the limit is OneShotNodesMax, and the options allow more
}

func (e *LimitError) Error() string {
	if e.oneShot {
		return fmt.Sprintf("cache %s: more than %d znodes (the server has no persistent watches, so this is the limit: cache a smaller part)", e.Path, e.Limit)
	}
	return fmt.Sprintf("cache %s: more than %d %s (raise the limit in the options, or cache a smaller part)", e.Path, e.Limit, e.What)
}

// Is makes errors.Is(err, ErrLimit) hold.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// A Cache keeps a part of the tree in memory; see the package's comment. It is safe for use by many goroutines.
type Cache struct {
	// Fixed by Open.
	path   string
	opt    Options
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the cache follows no more; err is set before

	view atomic.Pointer[chunks]

	mu struct {
		sync.Mutex
		state   State
		changed chan struct{} // closed when state is replaced
		log     []Change      // the newest changes; never changed in place
		bytes   int64         // of log
		last    uint64        // number of the newest change; the first view is number 1
		behind  error         // why the view may be behind until the next one is published; nil if it is not
		cut     error         // why there is no connection, or was none since everything was read; nil if there is one
		session *client.Session
		conn    uint64 // of the session's connections, the one on which everything was read last
		err     error  // why the cache has ended
	}
}

// A State is what is true of a cache at one moment.
type State struct {
	View View

	// Stale is why the view may be behind what the ensemble has: there is no connection, or the part is being read
	// again. It is nil while the cache follows.
	Stale error

	// Rereads is how often the part has been read again after the first time.
	Rereads int
}

// Open caches the subtree of the znode at path, which need not exist, and returns when it has been read. It follows
// the tree across sessions of the Keeper. ctx bounds the opening only. Close must be called.
func Open(ctx context.Context, k *client.Keeper, path string, opt Options) (*Cache, error) {
	_ = ctx.Err() // a nil context panics before anything has begun
	if err := operr.NoKeeper("cache", path, k); err != nil {
		return nil, err
	}
	opt, err := opt.withDefaults(path)
	if err != nil {
		return nil, err
	}
	c := &Cache{path: path, opt: opt, done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.mu.changed = make(chan struct{})
	c.mu.behind = errUnread
	c.mu.state.Stale = errUnread
	go c.run(k)
	for {
		_, _, last, changed := c.since(0)
		if last > 0 {
			return c, nil
		}
		if err := c.wait(ctx, changed); err != nil {
			c.Close(ctx)
			return nil, err
		}
	}
}

var errUnread = errors.New("not all has been read yet")

// run follows the tree until Close, with one session after the other.
func (c *Cache) run(k *client.Keeper) {
	err := k.Run(c.ctx, c.follow)
	if c.ctx.Err() != nil {
		err = &client.OpError{Op: "cache", Path: c.path, Err: zk.ErrClosed}
	}
	c.mu.Lock()
	c.mu.err, c.mu.state.Stale = err, err
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
	c.mu.Unlock()
	close(c.done)
}

// Path returns the path of the cache's root.
func (c *Cache) Path() string { return c.path }

// View returns the newest view.
func (c *Cache) View() View { return View{c.view.Load()} }

// Get returns the znode at path from the newest view, and whether there is one.
func (c *Cache) Get(path string) (Node, bool) { return c.View().Get(path) }

// State returns the state of the cache, and a channel that is closed when that state has passed.
func (c *Cache) State() (State, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.state, c.mu.changed
}

// WaitFor waits until a view is as wanted, and returns it. Views that follow each other quickly are skipped.
func (c *Cache) WaitFor(ctx context.Context, wanted func(View) bool) (View, error) {
	if wanted == nil {
		return View{}, operr.NoFunction("cache", c.path, "wanted")
	}
	for {
		state, changed := c.State()
		if wanted(state.View) {
			return state.View, nil
		}
		if err := c.wait(ctx, changed); err != nil {
			return View{}, err
		}
	}
}

// Done is closed when the cache follows the tree no more. It keeps its last view.
func (c *Cache) Done() <-chan struct{} { return c.done }

// Err returns nil until Done is closed, and then why the cache has ended: zk.ErrClosed after Close and after that of the
// Keeper, a *LimitError, a *client.SizeError of a znode whose data or list of children is larger than the session takes, or what the
// server has refused.
func (c *Cache) Err() error {
	select {
	case <-c.done:
		if errors.Is(c.mu.err, ErrLimit) { // it says the path
			return c.mu.err
		}
		return operr.Wrap("cache", c.path, c.mu.err, false)
	default:
		return nil
	}
}

// Close ends the cache and returns when its goroutines are over, which is at once. ctx has no effect, closing again is harmless, and the
// error is always nil.
func (c *Cache) Close(ctx context.Context) error {
	c.cancel(zk.ErrClosed)
	<-c.done
	return nil
}

// wait waits until changed is closed. The error says why ctx or the cache has ended, and what keeps the cache from reading.
func (c *Cache) wait(ctx context.Context, changed <-chan struct{}) error {
	if err := c.Err(); err != nil {
		return err
	}
	select {
	case <-changed:
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		err := ending.Of(ctx)
		if state, _ := c.State(); state.Stale != nil {
			err = fmt.Errorf("%w (%v)", err, state.Stale)
		}
		return &client.OpError{Op: "cache", Path: c.path, Err: err}
	}
}

// since returns the changes behind the one with the number at, the newest version, the number of the newest change, and
// the channel that is closed when there are more. There are no changes if the log does not go back that far.
func (c *Cache) since(at uint64) (news []Change, now *chunks, last uint64, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missing := c.mu.last - at; at > 0 && missing <= uint64(len(c.mu.log)) {
		news = c.mu.log[uint64(len(c.mu.log))-missing:]
		news = news[:len(news):len(news)]
	}
	return news, c.view.Load(), c.mu.last, c.mu.changed
}

// publish makes a version the newest one and tells its changes to readers. The version has all that events told on
// connection conn and before. If that connection has been lost, the state goes on to say so.
func (c *Cache) publish(now *chunks, news []Change, conn uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.conn = conn
	if c.mu.last == 0 {
		c.mu.last = 1
	} else {
		c.mu.last += uint64(len(news))
		c.logLocked(news)
		if len(news) > 0 && news[0].Kind == Reread {
			c.mu.state.Rereads++
		}
	}
	c.view.Store(now)
	c.mu.state.View = View{now}
	c.mu.behind = nil
	switch st, _ := c.mu.session.State(); {
	case st.Phase != client.Connected:
		c.mu.cut = st.Cause
	case st.Conn == conn:
		c.mu.cut = nil
	}
	c.mu.state.Stale = c.mu.cut
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}

// logLocked adds changes to the log, and clears it of old ones when it has become too long or too large.
func (c *Cache) logLocked(news []Change) {
	if len(news) > logMax { // readers compare the versions
		c.mu.log, c.mu.bytes = nil, 0
		return
	}
	bytes := size(news)
	c.mu.bytes += bytes
	// What follows the log is not in use by readers, so there is nothing to copy while there is room.
	if cap(c.mu.log)-len(c.mu.log) < len(news) || c.mu.bytes > 2*logBytesMax {
		kept := len(c.mu.log)
		for c.mu.bytes = bytes; kept > max(0, len(c.mu.log)-logMax); kept-- {
			n := size(c.mu.log[kept-1 : kept])
			if c.mu.bytes+n > logBytesMax {
				break
			}
			c.mu.bytes += n
		}
		c.mu.log = append(make([]Change, 0, 2*logMax), c.mu.log[kept:]...)
	}
	c.mu.log = append(c.mu.log, news...)
}

// size returns how many bytes the paths and the data of changes have.
func size(changes []Change) (bytes int64) {
	for _, change := range changes {
		bytes += change.Node.size() + change.Old.size()
	}
	return bytes
}

// stale notes why the view may be behind until the next one is published, in place of what was noted before.
func (c *Cache) stale(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.behind, c.mu.cut = why, nil
	c.tellStaleLocked()
}

// cutOff notes that a connection is lost, unless everything has been read on a later one.
func (c *Cache) cutOff(conn uint64, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.conn <= conn {
		c.mu.cut = why
		c.tellStaleLocked()
	}
}

// connected notes that there is a connection, and that no event was missed before.
func (c *Cache) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.cut = nil
	c.tellStaleLocked()
}

// begin notes that everything is about to be read with a session, whose connections are counted from 1. Why there was no connection
// before does not matter any more.
func (c *Cache) begin(s *client.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.session, c.mu.conn, c.mu.cut = s, 0, nil
	c.tellStaleLocked()
}

// tellStaleLocked tells readers whether the view may be behind and why, if that is new.
func (c *Cache) tellStaleLocked() {
	why := cmp.Or(c.mu.cut, c.mu.behind)
	if fmt.Sprint(c.mu.state.Stale) == fmt.Sprint(why) {
		return
	}
	c.mu.state.Stale = why
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}
