package barrier

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// readyName is the name of the znode that says that all have entered.
const readyName = "ready"

// A Double is one member of a double barrier. One goroutine uses it: Enter, then Leave, then perhaps again.
type Double struct {
	k       *client.Keeper
	path    string
	members int
	opt     Options
	name    string // of our znode
}

// NewDouble returns a member of the double barrier at path, which opens when that many members have entered. It asks the
// server nothing.
func NewDouble(k *client.Keeper, path string, members int, opt Options) (*Double, error) {
	opt, err := opt.withDefaults(path)
	if err != nil {
		return nil, err
	}
	if members < 1 {
		return nil, &client.OpError{Op: "barrier", Path: path, Err: fmt.Errorf("%d members, want at least 1", members)}
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	return &Double{k, path, members, opt, hex.EncodeToString(id[:])}, nil
}

// Path returns the path of the barrier.
func (d *Double) Path() string { return d.path }

func (d *Double) own() string   { return zk.Join(d.path, d.name) }
func (d *Double) ready() string { return zk.Join(d.path, readyName) }

// Enter returns nil once all members have entered. If it fails, it removes its znode; the barrier may have opened for the
// others nevertheless, if this member was the last one.
func (d *Double) Enter(ctx context.Context) error {
	err := d.k.Run(ctx, d.enter)
	if err == nil {
		return nil
	}
	err = opError("enter", d.path, err)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opt.CleanupTimeout)
	defer cancel()
	left := d.k.Run(clean, func(ctx context.Context, s *client.Session) error {
		if err := s.Sync(ctx, d.own()); err != nil { // a create may still be on its way
			return err
		}
		return remove(ctx, s, d.own())
	})
	if left != nil {
		return errors.Join(err, opError("leave", d.path, left))
	}
	return err
}

// enter enters with one session.
func (d *Double) enter(ctx context.Context, s *client.Session) error {
	for {
		_, err := s.CreateOnce(ctx, d.own(), d.opt.Data, zk.Ephemeral, d.opt.ACL)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		stat, there, own, err := s.WatchExists(ctx, d.own())
		if err != nil {
			return err
		}
		if !there || stat.EphemeralOwner != s.ID() { // deleted at once, or of our last session
			if err := d.replace(ctx, own, there); err != nil {
				return err
			}
			continue
		}
		_, opened, ready, err := s.WatchExists(ctx, d.ready())
		if err != nil {
			own.Cancel()
			return err
		}
		names, err := d.others(ctx, s)
		if err == nil && (opened || len(names) >= d.members) {
			own.Cancel()
			ready.Cancel()
			return create(ctx, s, d.ready(), d.opt)
		}
		if err != nil {
			own.Cancel()
			ready.Cancel()
			return err
		}
		if err := await(ctx, ready, own); err != nil {
			return err
		}
	}
}

// replace waits until a znode of an earlier session of ours is gone.
func (d *Double) replace(ctx context.Context, own *client.Watch, there bool) error {
	if !there {
		own.Cancel()
		return nil
	}
	return await(ctx, own)
}

// others returns the members' znodes, sorted, ours included.
func (d *Double) others(ctx context.Context, s *client.Session) ([]string, error) {
	names, _, err := s.Children(ctx, d.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == readyName })
	slices.Sort(names)
	return names, err
}

// Leave returns nil once all members have left. It may be called again after an error.
func (d *Double) Leave(ctx context.Context) error {
	return opError("leave", d.path, d.k.Run(ctx, d.leave))
}

// leave leaves with one session: the first member by name waits for the last one, and is the last to go; all others go
// and wait for the first.
func (d *Double) leave(ctx context.Context, s *client.Session) error {
	for {
		names, err := d.others(ctx, s)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return remove(ctx, s, d.ready())
		}
		awaited := names[0]
		if names[0] == d.name {
			awaited = names[len(names)-1]
		} else if slices.Contains(names, d.name) {
			if err := remove(ctx, s, d.own()); err != nil {
				return err
			}
		}
		if awaited == d.name { // we are the last one
			if err := remove(ctx, s, d.own()); err != nil {
				return err
			}
			continue
		}
		_, there, w, err := s.WatchExists(ctx, zk.Join(d.path, awaited))
		if err != nil {
			return err
		}
		if !there {
			w.Cancel()
			continue
		}
		if err := await(ctx, w); err != nil {
			return err
		}
	}
}
