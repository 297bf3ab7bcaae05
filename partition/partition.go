// Package partition shares a set of items out among the members of a group: each item is worked on by one member.
//
//	p, err := partition.Join(ctx, keeper, "/shards", "worker-7", items, work, partition.Options{})
//	…
//	err = p.Close(ctx)
//
// # Guarantees
//
//   - Each item has a lock, and work on it runs while its member holds that lock: an item is not worked on twice. As with
//     every lock, a process that is paused may learn of the loss late, so the work sends its Hold's Token with every write
//     whose late arrival would do harm.
//   - An item that moves is given up first: the context of the work ends, the work returns, the lock is released, and then
//     the next member gets it.
//   - With the default allocation only those items move that have to: those of a member that has gone, and a new member's
//     share.
//
// # Formats
//
// That of kazoo's SetPartitioner: members are those of its ShallowParty in PATH/party, and the lock of an item is
// PATH/locks/ITEM. Members of both kinds share items safely if the locks of kazoo's clients wait for our claims, which has to
// be said before a SetPartitioner is made:
//
//	client.Lock = functools.partial(client.Lock, extra_lock_patterns=["-lock-"])
//
// Otherwise kazoo takes items that are still worked on here. They also need the Slices allocation, by which both kinds agree on which
// member gets what, unless an id is there twice: with another, some items are worked on by no member.
//
// # Limits
//
// All members should be given the same items. An item is the name of a znode, so it has no slash. A member whose work
// does not return when its context ends keeps the item.
package partition

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Work works on an item until its context ends, which it does when the item moves to another member, when the lock is
// lost and when the Partition is closed. If it returns nil before, the member keeps the item, and Work is not called again
// until the item has been away. If it returns an error before, that is logged, the lock of the item is released, and after a
// second the item is tried again, by the member that should have it then. After the end of its context, Work returns what it
// likes: an error that is not that end is logged, and nothing else comes of it. hold is the lock of the item; Work must not
// release it.
type Work func(ctx context.Context, item string, hold *lock.Hold) error

// Options configure a Partition. The zero value of every field means its default.
type Options struct {
	// Allocate says which items a member gets. Items and members are sorted, each once; it must give the same answer in all members.
	// Default: Spread.
	Allocate func(items, members []string, member string) []string

	// Settle is how long the members must not have changed before items are shared out anew, so that members that come
	// or go together cause one change. Default 1 s; kazoo waits for 30 s.
	Settle time.Duration

	// Lock are the options of the items' locks.
	Lock lock.Options

	// ACL is the access control list of the member's znode and of those that are made above it. Default: every client may do
	// anything.
	ACL []zk.ACL

	// Logger gets a line when the items are shared out anew, when an item is lost, and when Work returns an error. Default: silent.
	Logger *slog.Logger
}

const (
	defaultSettle = time.Second
	retryPause    = time.Second
	closeLimit    = time.Second // how long a Close without time left takes to leave
)

// A Partition is one member. It is safe for use by many goroutines.
type Partition struct {
	// Fixed by Join.
	path   string
	id     string
	items  []string // sorted
	work   Work
	opt    Options
	member *group.Member
	group  *group.Group
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when run has ended

	// Used by run alone.
	turns   map[string]chan struct{} // of each item; a turn holds a token while the item is kept
	keeping sync.WaitGroup           // the goroutines that keep items

	mu struct {
		sync.Mutex
		own     map[string]bool // items that are worked on now
		changed chan struct{}   // closed when own changes
		err     error           // why run has ended
	}
}

// Join becomes a member of the partition at path, and calls work for each item that it gets. It returns once it is a
// member; ctx bounds that only. id tells members apart for people and decides about shares; two members with the same id
// get the same items, one as a stand-in. Close must be called.
func Join(ctx context.Context, k *client.Keeper, path, id string, items []string, work Work, opt Options) (*Partition, error) {
	if err := operr.NoKeeper("partition", path, k); err != nil {
		return nil, err
	}
	if work == nil {
		return nil, operr.NoFunction("partition", path, "work")
	}
	if opt.Allocate == nil {
		opt.Allocate = Spread
	}
	if opt.Settle == 0 {
		opt.Settle = defaultSettle
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Partition{path: path, id: id, items: slices.Compact(slices.Sorted(slices.Values(items))), work: work, opt: opt, done: make(chan struct{}), turns: map[string]chan struct{}{}}
	p.mu.own, p.mu.changed = map[string]bool{}, make(chan struct{})
	s, err := k.Session(ctx)
	if err == nil {
		err = p.check(s)
	}
	if err != nil {
		return nil, &client.OpError{Op: "partition", Path: path, Err: err}
	}
	var b [16]byte
	rand.Read(b[:]) // never fails
	joined := group.JoinOptions{ACL: opt.ACL, ParentACL: opt.ACL, Logger: opt.Logger}
	if p.group, err = group.Open(ctx, k, zk.Join(path, "party"), group.Options{Logger: opt.Logger}); err != nil {
		return nil, err
	}
	if p.member, err = group.Join(ctx, k, zk.Join(path, "party"), hex.EncodeToString(b[:])+"-"+id, nil, joined); err != nil {
		p.group.Close(ctx)
		return nil, err
	}
	life, cancel := context.WithCancelCause(context.Background())
	p.cancel = cancel
	go p.run(life, k)
	return p, nil
}

// check refuses what cannot be shared out, and options that no lock of the session can have.
func (p *Partition) check(s *client.Session) error {
	if p.id == "" || strings.Contains(p.id, "/") {
		return fmt.Errorf("id %q is empty or contains a slash", p.id)
	}
	for _, item := range p.items {
		if item == "" || strings.Contains(item, "/") {
			return fmt.Errorf("item %q is empty or contains a slash", item)
		}
		if err := zk.ValidatePath(zk.Join(p.path, item)); err != nil {
			return err
		}
	}
	if p.opt.Settle < 0 {
		return fmt.Errorf("option Settle: %v is negative", p.opt.Settle)
	}
	if err := zk.ValidatePath(p.path); err != nil {
		return err
	}
	_, err := p.lockOf(s, "items")
	return err
}

// lockOf returns the lock of an item.
func (p *Partition) lockOf(s *client.Session, item string) (*lock.Mutex, error) {
	return lock.NewMutex(s, zk.Join(zk.Join(p.path, "locks"), item), p.opt.Lock)
}

// run shares items out until Close, with one session after the other.
func (p *Partition) run(ctx context.Context, k *client.Keeper) {
	defer close(p.done)
	_, leave, err := bridge.Join(k, ctx) // so that Keeper.Close waits for the work
	if err == nil {                      // otherwise the Keeper has ended, as Run says below
		defer leave()
	}
	defer p.keeping.Wait()
	for {
		err := k.Run(ctx, p.share)
		if ctx.Err() != nil {
			err = zk.ErrClosed // whatever has ended with ctx
		}
		if ctx.Err() != nil || k.Err() != nil || p.group.Err() != nil || p.member.Err() != nil {
			p.mu.Lock()
			p.mu.err = err
			p.mu.Unlock()
			return
		}
		p.opt.Logger.Warn("partition: sharing failed, trying again", "path", p.path, "pause", retryPause, "cause", err)
		t := time.NewTimer(retryPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// share works with one session: it has a goroutine for each item that this member should have, and ends those of items
// that it should have no more. It does not wait for their ends, so that work that does not return keeps only its own item
// from going on with the next session.
func (p *Partition) share(ctx context.Context, s *client.Session) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(zk.ErrClosed)
	ours := map[string]context.CancelCauseFunc{}
	var told []string // the members of the last line in the log
	for {
		members, changed, err := p.awaitSettled(ctx)
		if err != nil {
			return err
		}
		wanted := map[string]bool{}
		for _, item := range p.opt.Allocate(slices.Clone(p.items), members, p.id) {
			wanted[item] = true
		}
		for item, end := range ours {
			if !wanted[item] {
				end(errMoved)
				delete(ours, item)
			}
		}
		for item := range wanted {
			if ours[item] == nil {
				itemCtx, end := context.WithCancelCause(ctx)
				ours[item] = end
				turn := p.turns[item]
				if turn == nil {
					turn = make(chan struct{}, 1)
					p.turns[item] = turn
				}
				p.keeping.Go(func() {
					select {
					case turn <- struct{}{}:
						p.keep(itemCtx, s, item)
						<-turn
					case <-itemCtx.Done():
					}
				})
			}
		}
		if !slices.Equal(told, members) {
			p.opt.Logger.Info("partition: shared out", "path", p.path, "members", len(members), "items", len(wanted))
			told = members
		}
		select {
		case <-changed:
		case <-p.group.Done():
			return p.group.Err()
		case <-p.member.Done():
			return p.member.Err()
		case <-ctx.Done():
			return ending.Of(ctx)
		}
	}
}

var errMoved = errors.New("the item moves to another member")

// awaitSettled waits until the members have not changed for a while, and returns their ids and the channel that is closed when
// they change again.
func (p *Partition) awaitSettled(ctx context.Context) ([]string, <-chan struct{}, error) {
	var members []string
	var settled <-chan time.Time // nil while the members are not known
	for {
		changed := p.group.Changed()
		switch ids := p.ids(); {
		case p.group.Stale() != nil:
			settled = nil
		case settled == nil || !slices.Equal(members, ids):
			members, settled = ids, time.After(p.opt.Settle)
		}
		select {
		case <-settled:
			if p.group.Stale() == nil && slices.Equal(members, p.ids()) {
				return members, changed, nil
			}
			settled = nil
		case <-changed:
		case <-p.group.Done():
			return nil, nil, p.group.Err()
		case <-p.member.Done():
			return nil, nil, p.member.Err()
		case <-ctx.Done():
			return nil, nil, ending.Of(ctx)
		}
	}
}

// ids returns the ids of the members, sorted. Members with the same id are one: they get the same items.
func (p *Partition) ids() []string {
	var ids []string
	for _, m := range p.group.Members() {
		if m.Stat.EphemeralOwner != 0 { // otherwise no process may be behind it, and its items would not be worked on
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// keep gets the lock of an item and works on the item until ctx ends; if the lock is lost or the work fails, it gets it again.
func (p *Partition) keep(ctx context.Context, s *client.Session, item string) {
	for ctx.Err() == nil {
		err := p.once(ctx, s, item)
		if err == nil || ctx.Err() != nil || s.Err() != nil {
			continue // with the session, ctx ends
		}
		p.opt.Logger.Warn("partition: an item is not worked on, trying again", "path", p.path, "item", item, "pause", retryPause, "cause", err)
		t := time.NewTimer(retryPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// once works on an item under its lock, until ctx ends, the lock is lost or the work fails.
func (p *Partition) once(ctx context.Context, s *client.Session, item string) error {
	m, err := p.lockOf(s, item)
	if err != nil {
		return err
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		if ctx.Err() == nil && s.Err() != nil {
			<-ctx.Done()
		}
		return err
	}
	return hold.Do(ctx, func(ctx context.Context) error {
		p.note(item, true)
		defer p.note(item, false)
		err := p.callWork(ctx, item, hold)
		switch {
		case err == nil:
			<-ctx.Done() // the item stays ours
		case ctx.Err() == nil:
			return fmt.Errorf("work: %w", err)
		case !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)):
			p.opt.Logger.Warn("partition: the work on an item has ended with an error", "path", p.path, "item", item, "cause", err)
		}
		return nil
	})
}

// errVanished is the error of work that ended its goroutine instead of returning.
var errVanished = errors.New("the work has ended its goroutine")

// callWork calls the work on an item, on a goroutine that the work may end.
func (p *Partition) callWork(ctx context.Context, item string, hold *lock.Hold) error {
	returned := make(chan error, 1)
	go func() { // ends with the work
		err := errVanished
		defer func() { returned <- err }()
		err = p.work(ctx, item, hold)
	}()
	return <-returned
}

// note notes whether an item is worked on.
func (p *Partition) note(item string, own bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own {
		p.mu.own[item] = true
	} else {
		delete(p.mu.own, item)
	}
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// Items returns the items that this member has now, sorted, and a channel that is closed when they change.
func (p *Partition) Items() ([]string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var items []string
	for item := range p.mu.own {
		items = append(items, item)
	}
	slices.Sort(items)
	return items, p.mu.changed
}

// Done is closed when the member works on nothing any more: after Close, after that of the Keeper, or because the server refuses
// the member's znode or a look at those of the others.
func (p *Partition) Done() <-chan struct{} { return p.done }

// Err returns nil until Done is closed, and then why the member has ended.
func (p *Partition) Err() error {
	select {
	case <-p.done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return &client.OpError{Op: "partition", Path: p.path, Err: p.mu.err}
	default:
		return nil
	}
}

// Close ends the work on all items, waits until every Work has returned, and leaves. A nil error says that the member's
// znode is gone. If ctx ends first, the member leaves all the same, and the error says which items are still worked on: they
// keep their locks, or go on without, until their Work returns. Closing again is harmless, and waits again. After the Close of the
// Keeper, which takes the znode along, the error is zk.ErrClosed: close the partition first.
func (p *Partition) Close(ctx context.Context) error {
	_ = ctx.Err() // a nil context panics before anything has ended
	p.cancel(zk.ErrClosed)
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	var err error
	if p.Err() == nil { // there is work
		err = ending.Of(ctx)
		if items, _ := p.Items(); len(items) > 0 {
			err = fmt.Errorf("still working on %s: %w", strings.Join(items, ", "), err)
		}
		err = &client.OpError{Op: "close partition", Path: p.path, Err: err}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
	}
	return errors.Join(err, p.member.Close(ctx), p.group.Close(ctx))
}
