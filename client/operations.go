package client

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Create creates a znode and returns its final path and its stat. A nil acl lets every client do anything.
// A lost answer is not resolved here: see MaybeApplied.
func (s *Session) Create(ctx context.Context, path string, data []byte, mode zk.Mode, acl []zk.ACL) (Created, error) {
	return once(ctx, s, func(p *Pipeline) *Pending[Created] { return p.Create(path, data, mode, acl) })
}

// CreateTTL creates a znode with a time to live; see Pipeline.CreateTTL.
func (s *Session) CreateTTL(ctx context.Context, path string, data []byte, mode zk.Mode, acl []zk.ACL, ttl time.Duration) (Created, error) {
	return once(ctx, s, func(p *Pipeline) *Pending[Created] { return p.CreateTTL(path, data, mode, acl, ttl) })
}

// Delete deletes a znode if its data has that version; zk.AnyVersion is any.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	_, err := once(ctx, s, func(p *Pipeline) *Pending[struct{}] { return p.Delete(path, version) })
	return err
}

// Set replaces the data of a znode if it has that version; zk.AnyVersion is any.
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error) {
	return once(ctx, s, func(p *Pipeline) *Pending[zk.Stat] { return p.Set(path, data, version) })
}

// SetACL replaces the access control list of a znode if the list has that version; zk.AnyVersion is any.
func (s *Session) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (zk.Stat, error) {
	return once(ctx, s, func(p *Pipeline) *Pending[zk.Stat] { return p.SetACL(path, acl, version) })
}

// Exists returns the stat of a znode and whether it is there.
func (s *Session) Exists(ctx context.Context, path string) (stat zk.Stat, ok bool, err error) {
	stat, err = again(ctx, s, func(p *Pipeline) *Pending[zk.Stat] { return p.Exists(path) })
	if errors.Is(err, zk.ErrNoNode) {
		return zk.Stat{}, false, nil
	}
	return stat, err == nil, err
}

// WatchExists is Exists with a watch, which is also set if the znode is not there. The watch is nil if err is not.
func (s *Session) WatchExists(ctx context.Context, path string) (stat zk.Stat, ok bool, w *Watch, err error) {
	stat, w, err = watchAgain(ctx, s, func(p *Pipeline) (*Pending[zk.Stat], *Watch) { return p.WatchExists(path) })
	if errors.Is(err, zk.ErrNoNode) {
		return zk.Stat{}, false, w, nil
	}
	return stat, err == nil, w, err
}

// Get returns the data and the stat of a znode.
func (s *Session) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	n, err := again(ctx, s, func(p *Pipeline) *Pending[Node] { return p.Get(path) })
	return n.Data, n.Stat, err
}

// WatchGet is Get with a watch, which is set only if err is nil.
func (s *Session) WatchGet(ctx context.Context, path string) (data []byte, stat zk.Stat, w *Watch, err error) {
	n, w, err := watchAgain(ctx, s, func(p *Pipeline) (*Pending[Node], *Watch) { return p.WatchGet(path) })
	return n.Data, n.Stat, w, err
}

// Children returns the names of a znode's children, in no particular order, and the znode's stat.
func (s *Session) Children(ctx context.Context, path string) ([]string, zk.Stat, error) {
	l, err := again(ctx, s, func(p *Pipeline) *Pending[Listing] { return p.Children(path) })
	return l.Names, l.Stat, err
}

// WatchChildren is Children with a watch, which is set only if err is nil.
func (s *Session) WatchChildren(ctx context.Context, path string) (names []string, stat zk.Stat, w *Watch, err error) {
	l, w, err := watchAgain(ctx, s, func(p *Pipeline) (*Pending[Listing], *Watch) { return p.WatchChildren(path) })
	return l.Names, l.Stat, w, err
}

// ACL returns the access control list of a znode and its stat.
func (s *Session) ACL(ctx context.Context, path string) ([]zk.ACL, zk.Stat, error) {
	a, err := again(ctx, s, func(p *Pipeline) *Pending[Access] { return p.ACL(path) })
	return a.ACL, a.Stat, err
}

// Sync waits until the server we are connected to has everything that the leader had when it saw the request; see Pipeline.Sync.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := again(ctx, s, func(p *Pipeline) *Pending[struct{}] { return p.Sync(path) })
	return err
}

// AwaitWrites waits until every write that the session has sent before is decided; see Pipeline.AwaitWrites.
func (s *Session) AwaitWrites(ctx context.Context) error {
	_, err := again(ctx, s, (*Pipeline).AwaitWrites)
	return err
}

// AddAuth authenticates the session under one more identity, now and on every later connection, on those also if AddAuth fails. A
// credential that the server refuses ends the session, because servers hang up on it.
func (s *Session) AddAuth(ctx context.Context, a Auth) error {
	if n := len(greet(a).frame) - 4; n > s.opt.RequestBytesMax { // or no later connection would get past it
		return &OpError{Op: "auth", Path: a.Scheme, Err: &SizeError{Bytes: int64(n), Max: s.opt.RequestBytesMax}}
	}
	a = a.clone()
	s.mu.Lock()
	if !slices.ContainsFunc(s.mu.auth, func(b Auth) bool { return a.Scheme == b.Scheme && bytes.Equal(a.Credential, b.Credential) }) {
		s.mu.auth = append(s.mu.auth, a)
	}
	s.mu.Unlock()
	_, err := again(ctx, s, func(p *Pipeline) *Pending[struct{}] {
		return add[struct{}](p, "auth", wire.OpAuth, a.Scheme, &wire.AuthRequest{Scheme: a.Scheme, Auth: a.Credential}, nil)
	})
	return err
}

// once sends a request and waits for its outcome.
func once[T any](ctx context.Context, s *Session, make func(*Pipeline) *Pending[T]) (T, error) {
	p := s.Pipeline()
	k := make(p)
	p.Send(ctx)
	return k.Wait(ctx)
}

// again is once for a request that is safe to repeat, and repeats it while its connection breaks. The session paces the reconnects.
func again[T any](ctx context.Context, s *Session, make func(*Pipeline) *Pending[T]) (T, error) {
	for doubt := false; ; {
		v, err := once(ctx, s, make)
		if !isConnectionLoss(err) {
			return v, withDoubt(err, doubt)
		}
		doubt = doubt || MaybeApplied(err)
	}
}

// withDoubt returns the error of a request that repeats another one: if there is a doubt about that one, there still is.
func withDoubt(err error, doubt bool) error {
	if op, ok := err.(*OpError); ok {
		op.Maybe = op.Maybe || doubt
	}
	return err
}

// watchAgain is again for a read that sets a watch, which is nil if it is not set.
func watchAgain[T any](ctx context.Context, s *Session, make func(*Pipeline) (*Pending[T], *Watch)) (v T, w *Watch, err error) {
	v, err = again(ctx, s, func(p *Pipeline) (k *Pending[T]) {
		k, w = make(p)
		return k
	})
	if err != nil && !(errors.Is(err, zk.ErrNoNode) && w.absent) {
		w.Cancel()
		w = nil
	}
	return v, w, err
}

// An Identity is one of those that the server knows the session by.
type Identity struct {
	Scheme string
	ID     string // with the digest scheme only the user, without the hash
}

// WhoAmI returns the identities of the session on its present connection. Servers answer it since 3.7.0.
func (s *Session) WhoAmI(ctx context.Context) ([]Identity, error) {
	return again(ctx, s, func(p *Pipeline) *Pending[[]Identity] {
		return add(p, "whoAmI", wire.OpWhoAmI, "", nil, func(d *wire.Decoder) (ids []Identity) {
			var r wire.WhoAmIResponse
			r.DecodeFrom(d)
			for _, id := range r.Identities {
				ids = append(ids, Identity(id))
			}
			return ids
		})
	})
}

// Ephemerals returns the paths of the session's own ephemeral znodes at and below prefix. Servers answer it since 3.6.0.
func (s *Session) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	paths, err := again(ctx, s, func(p *Pipeline) *Pending[[]string] {
		req := &wire.PrefixRequest{Prefix: s.serverPath(prefix)}
		return add(p, "getEphemerals", wire.OpGetEphemerals, prefix, req, (*wire.Decoder).Strings)
	})
	for i, path := range paths {
		paths[i] = s.clientPath(path)
	}
	below := strings.TrimSuffix(prefix, "/") + "/" // servers compare strings: /ab begins with /a
	return slices.DeleteFunc(paths, func(path string) bool { return path != prefix && !strings.HasPrefix(path, below) }), err
}

// CountBelow returns how many znodes there are below path, at any depth. Servers answer it since 3.6.0.
func (s *Session) CountBelow(ctx context.Context, path string) (int32, error) {
	return again(ctx, s, func(p *Pipeline) *Pending[int32] {
		req := &wire.PathRecord{Path: s.serverPath(path)}
		return add(p, "getAllChildrenNumber", wire.OpAllChildrenCount, path, req, (*wire.Decoder).Int32)
	})
}
