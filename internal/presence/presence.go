// Package presence keeps one ephemeral znode there: it comes back after an expiry, or when another client deletes it,
// and it is known to be gone after Close. Packages group and discovery are made of it.
//
// There is never a second znode, because the path is fixed. A lost answer is resolved by looking at the znode's owner,
// its session. A znode at the path that another session owns is not touched, unless Options.TakeOver says so: it may be
// that of an earlier process, which goes with its session, and is waited for. Of several Presences of one Keeper with the same
// path, one at a time keeps the znode.
package presence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Options configure a Presence. The zero value of every field means its default.
type Options struct {
	// Op is the name of what is done, for errors, such as "join".
	Op string
	// ACL is that of the znode, ParentACL that of the znodes above it that have to be made. Default: every client may do
	// anything.
	ACL, ParentACL []zk.ACL
	// TakeOver puts the znode in the place of one that another session has when this Presence begins. One that comes
	// later is waited for, or two would take it from each other for ever, and so is one that is not ephemeral. Default: it is
	// waited for in any case, as one of the same Keeper always is.
	TakeOver bool
	// Rival is the session that TakeOver may replace, 0 for none, where that was found out before. Default: the one that has the znode when
	// this Presence looks first.
	Rival *int64
	// Container makes the znode's parent, if it is missing, as a container, which the server deletes some time after its
	// last child, where the server knows containers.
	Container bool
	// Taken makes the error that says that another session owns the znode; owner is 0 if it is not ephemeral.
	Taken func(path string, owner int64) error
	// CloseTimeout bounds Close besides its context. Default 5 s.
	CloseTimeout time.Duration
	// Logger gets a line when the znode has come back. Default: silent.
	Logger *slog.Logger
}

const (
	defaultCloseTimeout = 5 * time.Second
	retryPause          = time.Second
)

// A State is what is true of a Presence at one moment.
type State struct {
	Present bool
	Err     error // why it is not present; nil if it is
}

// A Presence keeps a znode there.
type Presence struct {
	// Fixed by Keep.
	k      *client.Keeper
	path   string
	opt    Options
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when run has ended
	turn   chan struct{} // closed when another Presence may keep the znode

	rival    *int64         // used by run: the session that had the znode at first, 0 for none; nil before the first look
	ours     map[int64]bool // the sessions under which it was this one's turn, that may own the znode; written by run alone
	removing chan struct{}  // holds a token while the znode is removed

	mu struct {
		sync.Mutex
		created bool     // the znode was there
		sets    uint64   // counts how often data was set
		wanted  version  // what the znode should have
		good    version  // the newest that was written; the first one before
		written uint64   // the number of the version that the znode has; 0 if that is not known
		refused struct { // the newest version that the server did not take, or a later one that replaced it
			number uint64
			err    error
		}
		state   State         // as far as is known
		changed chan struct{} // closed when anything here changes
		err     error         // why run has ended
		gone    bool          // the znode has been removed, for good
	}
}

// A version is what data was set to, with its number.
type version struct {
	data   []byte
	number uint64
}

// Keep creates the znode at path with data, and keeps it there until Close. It returns once the znode is there. ctx
// bounds that only.
func Keep(ctx context.Context, k *client.Keeper, path string, data []byte, opt Options) (*Presence, error) {
	_ = ctx.Err() // a nil context panics before anything has begun
	p, err := Begin(k, path, data, opt)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, opt.Op, 1); err != nil {
		return nil, errors.Join(err, p.Close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// Begin is Keep, but does not wait until the znode is there.
func Begin(k *client.Keeper, path string, data []byte, opt Options) (*Presence, error) {
	if err := operr.NoKeeper(opt.Op, path, k); err != nil {
		return nil, err
	}
	if opt.CloseTimeout < 0 {
		return nil, &client.OpError{Op: opt.Op, Path: path, Err: fmt.Errorf("option CloseTimeout: %v is negative", opt.CloseTimeout)}
	}
	if opt.CloseTimeout == 0 {
		opt.CloseTimeout = defaultCloseTimeout
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Presence{k: k, path: path, opt: opt, done: make(chan struct{}), turn: make(chan struct{}), rival: opt.Rival,
		ours: map[int64]bool{}, removing: make(chan struct{}, 1)}
	if err := zk.ValidatePath(path); err != nil {
		return nil, p.failed(opt.Op, err)
	}
	p.mu.sets, p.mu.wanted, p.mu.changed = 1, version{bytes.Clone(data), 1}, make(chan struct{})
	p.mu.good = p.mu.wanted
	p.mu.state.Err = errors.New("not yet created")
	life, cancel := context.WithCancelCause(context.Background())
	p.cancel = cancel
	go p.run(life)
	return p, nil
}

// turns has, for each znode that a Presence of this process keeps, the channel that is closed when it keeps it no more.
var turns = struct {
	sync.Mutex
	of map[place]chan struct{}
}{of: map[place]chan struct{}{}}

// A place is a znode, as a Keeper names it.
type place struct {
	k    *client.Keeper
	path string
}

// takeTurn returns nil if this Presence keeps the znode from now on, and otherwise the channel that is closed when the one
// before ends.
func (p *Presence) takeTurn() <-chan struct{} {
	turns.Lock()
	defer turns.Unlock()
	at := place{p.k, p.path}
	before := turns.of[at]
	switch {
	case before == nil:
		turns.of[at] = p.turn
	case before != p.turn:
		return before
	}
	return nil
}

// A sameKeeperError says that another Presence of the same Keeper keeps the znode.
type sameKeeperError struct{ taken error }

func (e *sameKeeperError) Error() string {
	return "another one of the same Keeper keeps it (until that is closed)"
}

// Unwrap returns the error of a znode that another session owns, which callers look for.
func (e *sameKeeperError) Unwrap() error { return e.taken }

// endTurn lets another Presence keep the znode.
func (p *Presence) endTurn() {
	turns.Lock()
	defer turns.Unlock()
	if at := (place{p.k, p.path}); turns.of[at] == p.turn {
		delete(turns.of, at)
		close(p.turn)
	}
}

// failed wraps an error of an operation.
func (p *Presence) failed(name string, err error) error {
	var op *client.OpError
	if errors.As(err, &op) && op.Path == p.path {
		err = op.Err
	}
	return &client.OpError{Op: name, Path: p.path, Err: err}
}

// run keeps the znode there, with one session after the other.
func (p *Presence) run(ctx context.Context) {
	defer close(p.done)
	for {
		err := p.k.Run(ctx, p.serve)
		if ctx.Err() != nil {
			err = zk.ErrClosed // whatever request that has ended
		}
		if ctx.Err() != nil || p.k.Err() != nil || permanent(err) || errors.Is(err, zk.ErrNoChildrenForEphemerals) {
			p.update(func() { p.mu.err, p.mu.state = err, State{Err: err} })
			if p.k.Err() != nil {
				p.endTurn() // no Presence of this Keeper keeps anything any more
			}
			return
		}
		p.lost(err)
		rest(ctx)
	}
}

// permanent reports whether a request fails in this way as often as it is made.
func permanent(err error) bool {
	var size *client.SizeError
	return errors.As(err, &size) || errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrBadArguments) || errors.Is(err, zk.ErrInvalidACL)
}

// rest waits for a moment, or until ctx ends.
func rest(ctx context.Context) {
	t := time.NewTimer(retryPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// serve keeps the znode there with one session.
func (p *Presence) serve(ctx context.Context, s *client.Session) error {
	p.update(func() { p.mu.written = 0 })
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { p.watchServer(watching, s) })
	defer func() { stop(); watcher.Wait() }()
	for {
		err := p.check(ctx, s)
		if err != nil {
			p.lost(err)
			return err
		}
	}
}

// check looks at the znode, does what has to be done and waits for a change.
func (p *Presence) check(ctx context.Context, s *client.Session) error {
	if p.opt.TakeOver && p.rival == nil { // a server that is behind would not show the session to replace
		err := s.Sync(ctx, p.path)
		if err != nil {
			return err
		}
	}
	stat, there, w, err := s.WatchExists(ctx, p.path)
	if err != nil {
		return err
	}
	defer w.Cancel()
	if p.rival == nil {
		p.rival = &stat.EphemeralOwner
	}
	wanted, written, _ := p.wish()
	var changed <-chan struct{} // of the wish, where that matters
	before := p.takeTurn()
	if before == nil {
		p.ours[s.ID()] = true
	}
	switch {
	case before != nil:
		p.lost(&sameKeeperError{p.opt.Taken(p.path, s.ID())})
		changed = before
	case !there:
		p.lost(errors.New("the znode is not there"))
		_, err := s.Create(ctx, p.path, wanted.data, zk.Ephemeral, p.opt.ACL)
		switch {
		case err == nil:
			p.opt.Logger.Debug("present", "path", p.path, "session", s)
			p.present(wanted)
		case errors.Is(err, zk.ErrNoNode):
			return MakeParents(ctx, s, p.path, p.opt)
		case errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrConnectionLoss):
			return nil // look whether it is there, and whose it is
		case p.refuse(wanted, err):
			return nil // create it with the data before
		}
		return err
	case stat.EphemeralOwner != s.ID():
		p.lost(p.opt.Taken(p.path, stat.EphemeralOwner))
		if p.mayTakeOver(stat.EphemeralOwner) {
			return p.takeOver(ctx, s, stat, wanted)
		}
	case written != wanted.number:
		_, err := s.Set(ctx, p.path, wanted.data, stat.Version) // it may have been taken over meanwhile
		switch {
		case err == nil:
			p.present(wanted)
		case errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrConnectionLoss) || p.refuse(wanted, err):
		case permanent(err):
			// It may have been created with that, and the answer was lost.
			data, _, lookErr := s.Get(ctx, p.path)
			switch {
			case errors.Is(lookErr, zk.ErrNoNode):
			case lookErr != nil:
				return lookErr
			case !bytes.Equal(data, wanted.data):
				return err
			default:
				p.present(wanted)
			}
		default: // the znode is there all the same
			rest(ctx)
		}
		return nil
	default:
		p.present(wanted)
		var newest version
		newest, _, changed = p.wish()
		if st, _ := p.State(); newest.number != wanted.number || !st.Present { // set, or watchServer was here
			return nil
		}
	}
	select {
	case <-w.Done():
		return nil
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx) // zk.ErrClosed, which is the cause in the state
	}
}

// watchServer notes whenever no server has answered for so long that the session may be over, until ctx ends. Whatever request check
// waits for meanwhile.
func (p *Presence) watchServer(ctx context.Context, s *client.Session) {
	for {
		st, moved := s.State()
		var gone <-chan time.Time
		if st.Phase == client.Disconnected {
			gone = time.After(s.Timeout() - bridge.Of(s).Lease(int(client.VouchPing)).Age)
		}
		select {
		case <-gone:
			p.update(func() {
				if p.mu.state.Present {
					p.mu.state = State{Err: fmt.Errorf("no server has answered for %v, so the session may be over: %w", s.Timeout(), st.Cause)}
				}
			})
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// mayTakeOver reports whether the znode may be taken from a session that has it.
func (p *Presence) mayTakeOver(owner int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opt.TakeOver && owner != 0 && *p.rival == owner && !p.mu.created
}

// takeOver puts the znode in the place of another session's, in one transaction: its owner has no chance to create it again.
func (p *Presence) takeOver(ctx context.Context, s *client.Session, stat zk.Stat, wanted version) error {
	_, err := s.Multi(ctx, client.OpDelete(p.path, stat.Version), client.OpCreate(p.path, wanted.data, zk.Ephemeral, p.opt.ACL))
	switch {
	case err == nil:
		p.opt.Logger.Debug("present", "path", p.path, "session", s)
		p.present(wanted)
	case errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrConnectionLoss):
		rest(ctx) // and look again
		return nil
	}
	return err
}

// MakeParents makes what is missing above path, as a Presence with these options does there.
func MakeParents(ctx context.Context, s *client.Session, path string, opt Options) error {
	parent := zk.Parent(path)
	if !opt.Container || parent == "/" {
		return s.EnsurePath(ctx, parent, opt.ParentACL)
	}
	if err := s.EnsurePath(ctx, zk.Parent(parent), opt.ParentACL); err != nil {
		return err
	}
	_, err := s.Create(ctx, parent, nil, zk.Container, opt.ParentACL)
	switch {
	case errors.Is(err, zk.ErrUnimplemented) || errors.Is(err, zk.ErrNoAuth): // refused, though it may be there by now
		return s.EnsurePath(ctx, parent, opt.ParentACL)
	case errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrNoNode):
		return nil // there already, or the next create tells
	}
	return err
}

// wish returns what the znode should have, the number of what it has, and the channel that is closed when that changes.
func (p *Presence) wish() (wanted version, written uint64, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.wanted, p.mu.written, p.mu.changed
}

// refuse gives up a version that the server does not take, so that the last good one is wanted again. It reports false if that
// is the same one, or if the server may take it another time.
func (p *Presence) refuse(v version, err error) bool {
	if !permanent(err) && !errors.Is(err, zk.ErrQuotaExceeded) {
		return false
	}
	refused := false
	p.update(func() {
		refused = v.number != p.mu.good.number
		if !refused {
			return
		}
		p.mu.refused.number, p.mu.refused.err = v.number, err
		if p.mu.wanted.number == v.number { // it was not set again meanwhile
			p.mu.wanted = p.mu.good
		}
	})
	return refused
}

// update changes what mu guards and tells those that wait.
func (p *Presence) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// present notes that the znode is there with a version of the data.
func (p *Presence) present(v version) {
	p.mu.Lock()
	same := p.mu.state.Present && p.mu.written == v.number
	p.mu.Unlock()
	if !same {
		p.update(func() { p.mu.created, p.mu.state, p.mu.good, p.mu.written = true, State{Present: true}, v, v.number })
	}
}

func (p *Presence) lost(why error) {
	p.update(func() { p.mu.state = State{Err: why} })
}

// errReplaced is the error of a Set whose data was never offered to the server.
var errReplaced = errors.New("a later call to Set has replaced the data, and the server refuses what that has set")

// WasPresent reports whether the znode has been there.
func (p *Presence) WasPresent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.created
}

// await waits until the znode is there with the version of the given number, or a later one. op is the operation's name.
func (p *Presence) await(ctx context.Context, op string, number uint64) error {
	for {
		p.mu.Lock()
		state, written, refused, changed, err := p.mu.state, p.mu.written, p.mu.refused, p.mu.changed, p.mu.err
		p.mu.Unlock()
		switch {
		case state.Present && written >= number:
			return nil
		case refused.number == number:
			return p.failed(op, refused.err)
		case refused.number > number:
			return p.failed(op, errReplaced)
		case err != nil:
			return p.failed(op, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if state.Err == nil {
				state.Err = errors.New("the znode does not have the new data yet")
			}
			return p.failed(op, fmt.Errorf("%w (%w)", ending.Of(ctx), state.Err))
		}
	}
}

// Set changes the data, and returns once the znode has it. If ctx ends first, it will have it all the same, unless Set is
// called again. Data that the server refuses is an error, and the znode keeps what it had.
func (p *Presence) Set(ctx context.Context, data []byte) error {
	var number uint64
	p.update(func() {
		p.mu.sets++
		number = p.mu.sets
		p.mu.wanted = version{bytes.Clone(data), number}
	})
	return p.await(ctx, "set", number)
}

// Path returns the znode's path.
func (p *Presence) Path() string { return p.path }

// State returns whether the znode is there, as far as is known, and a channel that is closed when that may have changed.
func (p *Presence) State() (State, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.state, p.mu.changed
}

// Done is closed when the znode is not kept there any more.
func (p *Presence) Done() <-chan struct{} { return p.done }

// Err returns nil until Done is closed, and then why the znode is not kept any more.
func (p *Presence) Err() error {
	select {
	case <-p.done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.failed(p.opt.Op, p.mu.err)
	default:
		return nil
	}
}

// Close removes the znode. A nil error says that it is gone and will not come back. With an error, it is removed in the
// background, and goes with the session at the latest. Closing again looks again, until it is known to be gone.
func (p *Presence) Close(ctx context.Context) error {
	_ = ctx.Err() // a nil context panics before anything has ended
	p.cancel(zk.ErrClosed)
	<-p.done
	if p.isGone() || len(p.ours) == 0 && p.k.Err() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.opt.CloseTimeout, fmt.Errorf("no answer within %v", p.opt.CloseTimeout))
	defer cancel()
	// A session that is over has taken its znode with it, unless it has ended on this side alone: a new one looks.
	goesOn := false
	err := p.k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		err := p.remove(ctx, s)
		// Go on in the background, at the latest until the session's end.
		goesOn = err != nil && s.Go(func(ctx context.Context) { p.removeAtLast(ctx, s) })
		return err
	})
	if !goesOn {
		p.endTurn()
	}
	if err != nil {
		return &client.OpError{Op: "leave", Path: p.path, Err: err}
	}
	return nil
}

// removeAtLast deletes the znode if it is ours, however often that fails, until ctx ends.
func (p *Presence) removeAtLast(ctx context.Context, s *client.Session) {
	defer p.endTurn()
	for p.remove(ctx, s) != nil && ctx.Err() == nil {
		rest(ctx)
	}
}

// remove deletes the znode if it is ours, unless another call has done so: then it may be that of the next Presence.
func (p *Presence) remove(ctx context.Context, s *client.Session) error {
	select {
	case p.removing <- struct{}{}:
	case <-ctx.Done():
		return ending.Of(ctx)
	}
	defer func() { <-p.removing }()
	if p.isGone() {
		return nil
	}
	err := p.removeOurs(ctx, s)
	if err == nil {
		p.update(func() { p.mu.gone = true })
		p.endTurn()
	}
	return err
}

func (p *Presence) isGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.gone
}

// removeOurs deletes the znode if a session of ours owns it. A create may still be on its way.
func (p *Presence) removeOurs(ctx context.Context, s *client.Session) error {
	for {
		if err := s.AwaitWrites(ctx); err != nil {
			return err
		}
		stat, there, err := s.Exists(ctx, p.path)
		if err != nil || !there || !p.ours[stat.EphemeralOwner] {
			return err
		}
		err = s.Delete(ctx, p.path, stat.Version)
		switch {
		case err == nil || errors.Is(err, zk.ErrNoNode):
			return nil
		case !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrConnectionLoss):
			return err
		}
	}
}
