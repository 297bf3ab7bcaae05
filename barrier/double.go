package barrier

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// readyName is the name of the znode that says that all have entered.
const readyName = "ready"

var (
	// ErrEntered is returned by an Enter of a member that has entered and has not left: Leave is next.
	ErrEntered = errors.New("the member has entered already")
	// ErrNotEntered is returned by a Leave of a member that has not entered, or has left since.
	ErrNotEntered = errors.New("the member has not entered")
)

// A Double is one member of a double barrier. One goroutine uses it: Enter, then Leave, then perhaps again.
//
// The members of a round are the znodes that are older than the last write of ready. The round is over when all of them
// have gone. Only then is ready deleted, and only then do members enter the next round, so rounds are not mixed up.
type Double struct {
	k       *client.Keeper
	path    string
	members int
	opt     Options
	name    string // of our znode
	came    int64  // czxid of the oldest of our znodes that a round that is on may have counted unseen; 0 if there is none
	opened  int64  // mzxid of ready when we entered last
	entered bool   // Enter has returned nil, and Leave has not since
	behind  bool   // an Enter has failed, and its znode may still be there
}

// NewDouble returns a member of the double barrier at path, which opens when that many members have entered. All members have to be
// given the same number: the least one opens the barrier for all. It asks the server nothing.
func NewDouble(k *client.Keeper, path string, members int, opt Options) (*Double, error) {
	opt, err := opt.withDefaults(k, path)
	if err != nil {
		return nil, err
	}
	if members < 1 {
		return nil, &client.OpError{Op: "barrier", Path: path, Err: fmt.Errorf("%d members, want at least 1", members)}
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	return &Double{k: k, path: path, members: members, opt: opt, name: hex.EncodeToString(id[:])}, nil
}

// Path returns the path of the barrier.
func (d *Double) Path() string { return d.path }

func (d *Double) own() string   { return zk.Join(d.path, d.name) }
func (d *Double) ready() string { return zk.Join(d.path, readyName) }

// Enter returns nil once all members have entered. If it fails, it removes its znode; the barrier may have opened for the
// others nevertheless, if this member was the last one. If the znode could not be removed, the error says so: Leave removes it,
// another Enter goes on with it, and it goes with the session at the latest. A member that has entered and has not left gets
// ErrEntered, also if it has called Leave and that has failed.
func (d *Double) Enter(ctx context.Context) error {
	if d.entered {
		return operr.Wrap("enter", d.path, ErrEntered, false)
	}
	err := d.k.Run(ctx, d.enter)
	if err == nil {
		d.came, d.entered, d.behind = 0, true, false
		return nil
	}
	err = operr.Wrap("enter", d.path, err, false)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opt.CleanupTimeout)
	defer cancel()
	left := d.k.Run(clean, func(ctx context.Context, s *client.Session) error {
		if err := s.AwaitWrites(ctx); err != nil { // a create may still be on its way
			return err
		}
		return d.removeOwn(ctx, s)
	})
	d.behind = left != nil
	if d.behind {
		return errors.Join(err, operr.Wrap("leave", d.path, left, false))
	}
	d.came = 0
	return err
}

// enter enters with one session.
func (d *Double) enter(ctx context.Context, s *client.Session) error {
	if err := catchUp(ctx, s, d.path); err != nil {
		return err
	}
	var seen int64 // creation zxid of our znode when ready came; 0 before
	for {
		opened, err := d.tryEnter(ctx, s, &seen)
		if opened || err != nil {
			return err
		}
	}
}

// tryEnter sees to our znode and to ready, and reports whether the barrier is open for us. If it is not, it waits until that may be.
func (d *Double) tryEnter(ctx context.Context, s *client.Session, seen *int64) (opened bool, err error) {
	_, _, early, err := s.WatchExists(ctx, d.ready()) // kazoo's members may make and delete it as soon as our znode is there
	if err != nil {
		return false, err
	}
	defer early.Cancel()
	_, err = s.CreateOnce(ctx, d.own(), d.opt.Data, zk.Ephemeral, d.opt.ACL)
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return false, err
	}
	before := err == nil && created(early) // ahead of our znode, since events come before the answers to later requests
	stat, there, own, err := s.WatchExists(ctx, d.own())
	if err != nil {
		return false, err
	}
	defer own.Cancel()
	if there && d.came == 0 {
		d.came = stat.Czxid
	}
	switch {
	case !there: // deleted at once
		return false, nil
	case stat.EphemeralOwner != s.ID(): // of our last session
		return false, await(ctx, own)
	}
	was, opened, ready, err := s.WatchExists(ctx, d.ready())
	if err != nil {
		return false, err
	}
	defer ready.Cancel()
	if !before && created(early) {
		*seen = stat.Czxid
	}
	if !opened && *seen == stat.Czxid { // kazoo's first member to leave has taken ready along
		return true, d.noteOpenedBefore(ctx, s)
	}
	opened, older, err := d.pass(ctx, s, stat.Czxid, was, opened, ready)
	if opened || err != nil {
		return opened, err
	}
	d.came = stat.Czxid // if a round is on now, it is not ours
	if older != nil {
		return false, await(ctx, older, ready, own)
	}
	err = await(ctx, ready, own)
	if err == nil && created(ready) {
		*seen = stat.Czxid
	}
	return false, err
}

// created reports whether the znode was made since the watch was set.
func created(w *client.Watch) bool {
	if !w.Fired() {
		return false
	}
	ev, _, _ := w.Event()
	return ev.Type == zk.NodeCreated
}

// noteOpenedBefore notes that the barrier was opened, at the last change of its list of children at the latest.
func (d *Double) noteOpenedBefore(ctx context.Context, s *client.Session) error {
	_, stat, err := s.Children(ctx, d.path)
	if err == nil {
		d.opened = stat.Pzxid
	}
	return err
}

// pass reports whether the barrier is open for our znode, which was created at the zxid ours, and opens it once all are
// there. Otherwise ready, which w watches, has to change, or older, if it is not nil, has to fire.
func (d *Double) pass(ctx context.Context, s *client.Session, ours int64, ready zk.Stat, there bool, w *client.Watch) (opened bool, older *client.Watch, err error) {
	if there && ready.Mzxid > ours {
		d.opened = ready.Mzxid
		return true, nil, nil
	}
	names, err := d.znodes(ctx, s)
	if err != nil {
		return false, nil, err
	}
	if there { // another round is on, or is over and ready was left behind
		older, _, err = d.watchOther(ctx, s, names, ready.Mzxid)
		switch {
		case err != nil:
			return false, nil, err
		case older == nil:
			_, err = d.removeReady(ctx, s, ready)
			return false, nil, err
		case ready.Mzxid < d.came || len(names) > d.members:
			return false, older, nil
		}
		// The round may have begun with a znode of ours that is gone: written again, ready counts this one in.
		older.Cancel()
		var now zk.Stat
		err = repeated(func() error {
			now, err = s.Set(ctx, d.ready(), d.opt.Data, ready.Version)
			return err
		})
		return d.written(now.Mzxid, err)
	}
	if len(names) < d.members || created(w) { // and perhaps gone again: made anew, it would keep kazoo's members from leaving
		return false, nil, nil
	}
	var made client.Created
	err = repeated(func() error {
		made, err = s.Create(ctx, d.ready(), d.opt.Data, zk.Persistent, d.opt.ACL)
		return err
	})
	return d.written(made.Stat.Mzxid, err)
}

// written says what pass returns when ready has been written, or another client was faster.
func (d *Double) written(mzxid int64, err error) (opened bool, older *client.Watch, _ error) {
	switch {
	case err == nil:
		d.opened = mzxid
		return true, nil, nil
	case errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion):
		return false, nil, nil
	}
	return false, nil, err
}

// znodes returns the names of the members' znodes, sorted, ours included.
func (d *Double) znodes(ctx context.Context, s *client.Session) ([]string, error) {
	names, _, err := s.Children(ctx, d.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == readyName })
	slices.Sort(names)
	return names, err
}

// watchOther watches the first of the znodes, other than ours, that is older than a write of ready. w is nil if there is none.
func (d *Double) watchOther(ctx context.Context, s *client.Session, names []string, written int64) (w *client.Watch, name string, err error) {
	for _, name := range names {
		if name == d.name {
			continue
		}
		stat, there, w, err := s.WatchExists(ctx, zk.Join(d.path, name))
		if err != nil {
			return nil, "", err
		}
		if there && stat.Czxid < written {
			return w, name, nil
		}
		w.Cancel()
	}
	return nil, "", nil
}

// removeOwn deletes our znode. No other client creates it, so a lost answer is resolved by asking again.
func (d *Double) removeOwn(ctx context.Context, s *client.Session) error {
	err := repeated(func() error { return s.Delete(ctx, d.own(), zk.AnyVersion) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// endRound deletes our znode, the last one of the round, and ready, as it was, in one transaction: as long as our znode is there,
// no other round begins, and behind that, another client finds no ready that it would have to remove, while a later round makes its
// own. over is false if something was otherwise, or may have been: look again.
func (d *Double) endRound(ctx context.Context, s *client.Session, ready zk.Stat) (over bool, err error) {
	_, err = s.Multi(ctx, client.OpDelete(d.own(), zk.AnyVersion), client.OpDelete(d.ready(), ready.Version))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, zk.ErrConnectionLoss):
		return false, s.AwaitWrites(ctx)
	case errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion):
		return false, nil
	}
	return false, err
}

// removeReady deletes ready as it was. It is not gone if it has been written since. If the answer is lost, the znode may be that
// of a later round before the look, and that one stays. So does one that has come before the request, with the same version: the
// write in the transaction tells, and ready is made again for members that have not seen it.
func (d *Double) removeReady(ctx context.Context, s *client.Session, was zk.Stat) (gone bool, err error) {
	for {
		results, err := s.Multi(ctx, client.OpSet(d.ready(), d.opt.Data, was.Version), client.OpDelete(d.ready(), was.Version+1))
		switch {
		case err == nil && results[0].Stat.Czxid != was.Czxid:
			err = repeated(func() error {
				_, err := s.Create(ctx, d.ready(), d.opt.Data, zk.Persistent, d.opt.ACL)
				return err
			})
			if errors.Is(err, zk.ErrNodeExists) {
				err = nil
			}
			return err == nil, err
		case err == nil || errors.Is(err, zk.ErrNoNode):
			return true, nil
		case errors.Is(err, zk.ErrBadVersion):
			return false, nil
		case !errors.Is(err, zk.ErrConnectionLoss):
			return false, err
		}
		if err := s.AwaitWrites(ctx); err != nil {
			return false, err
		}
		now, there, err := s.Exists(ctx, d.ready())
		if err != nil || !there || now.Czxid != was.Czxid {
			return err == nil, err
		}
	}
}

// Leave returns nil once all members have left. After an error it is to be called again: until it returns nil, the member has
// not left. A member that has not entered, or has left since, gets ErrNotEntered.
func (d *Double) Leave(ctx context.Context) error {
	if !d.entered && !d.behind {
		return operr.Wrap("leave", d.path, ErrNotEntered, false)
	}
	err := d.k.Run(ctx, d.leave)
	if err == nil {
		d.came, d.entered, d.behind = 0, false, false
	}
	return operr.Wrap("leave", d.path, err, false)
}

// leave leaves with one session: the first member by name waits for the last one, and is the last to go; all others go
// and wait for the first. Znodes that are not of our round do not count.
func (d *Double) leave(ctx context.Context, s *client.Session) error {
	var err error
	if d.behind { // the create of an Enter that has failed may still be on its way
		err = s.AwaitWrites(ctx)
	} else {
		err = catchUp(ctx, s, d.path)
	}
	if err != nil {
		return err
	}
	for {
		ready, there, err := s.Exists(ctx, d.ready())
		if err != nil {
			return err
		}
		there = there && ready.Czxid <= d.opened // otherwise it is that of a later round
		written := d.opened
		if there {
			written = ready.Mzxid // it may have been written again since we entered
		}
		names, err := d.znodes(ctx, s)
		if err != nil {
			return err
		}
		w, first, err := d.watchOther(ctx, s, names, written)
		if err != nil {
			return err
		}
		here := slices.Contains(names, d.name)
		switch {
		case here && w != nil && d.name < first:
			w.Cancel()
			slices.Reverse(names)
			w, _, err = d.watchOther(ctx, s, names, written)
		case here && w == nil && there:
			over, err := d.endRound(ctx, s, ready)
			if over || err != nil {
				return err
			}
			continue
		case here:
			if err = d.removeOwn(ctx, s); err != nil && w != nil {
				w.Cancel()
			}
			here = false
		}
		switch {
		case err != nil:
			return err
		case w == nil && here: // the last of the others has just gone: look again
			continue
		case w == nil:
			over := !there
			if there {
				over, err = d.removeReady(ctx, s, ready)
			}
			if over || err != nil {
				return err
			}
			continue // one has come late
		}
		if err := await(ctx, w); err != nil {
			return err
		}
	}
}
