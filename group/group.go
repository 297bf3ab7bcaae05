package group

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An Info is what is known of a member.
type Info struct {
	ID   string
	Data []byte // must not be changed
	Path string // of its znode
	Stat zk.Stat
}

// A Group shows its members. It is safe for use by many goroutines.
type Group struct{ c *cache.Cache }

// Options configure a Group. The zero value of every field means its default.
type Options struct {
	// Logger gets a line for whatever an operator should know. Default: silent.
	Logger *slog.Logger
}

// Open shows the members of the group at path, which need not exist. It returns once they have been read; ctx bounds
// that only. Close must be called.
func Open(ctx context.Context, k *client.Keeper, path string, opt Options) (*Group, error) {
	if err := operr.NoKeeper("group", path, k); err != nil {
		return nil, err
	}
	c, err := cache.Open(ctx, k, path, cache.Options{Logger: opt.Logger})
	if err != nil {
		return nil, operr.Wrap("group", path, err, false)
	}
	return &Group{c}, nil
}

// Members returns the members, by id.
func (g *Group) Members() []Info { return g.members(g.c.View()) }

func (g *Group) members(v cache.View) []Info {
	var all []Info
	for n := range v.Children(g.c.Path()) {
		all = append(all, infoOf(n))
	}
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Path, b.Path))
	})
	return all
}

const (
	kazooIDLength = 32 // of the hexadecimal id in front of kazoo's names
	partySuffix   = "__party__"
)

// infoOf reads the znode of a member: Curator's, or kazoo's.
func infoOf(n cache.Node) Info {
	name := zk.Base(n.Path)
	info := Info{ID: name, Data: n.Data, Path: n.Path, Stat: n.Stat}
	if len(name) <= kazooIDLength || strings.Trim(name[:kazooIDLength], "0123456789abcdef") != "" {
		return info
	}
	switch rest := name[kazooIDLength:]; {
	case rest == partySuffix:
		info.ID = string(n.Data)
	case len(rest) > 1 && rest[0] == '-':
		info.ID = rest[1:]
	}
	return info
}

// WaitFor waits until the members are as wanted, and returns them.
func (g *Group) WaitFor(ctx context.Context, wanted func([]Info) bool) ([]Info, error) {
	if wanted == nil {
		return nil, operr.NoFunction("group", g.c.Path(), "wanted")
	}
	var members []Info
	_, err := g.c.WaitFor(ctx, func(v cache.View) bool {
		members = g.members(v)
		return wanted(members)
	})
	if err != nil {
		return nil, operr.Wrap("group", g.c.Path(), err, false)
	}
	return members, nil
}

// A Change is a member that has come, changed its data or gone, in the words of package cache.
type Change struct {
	Kind   cache.Kind
	Member Info
	Old    Info // of cache.Changed: what the member was before
}

// Changes returns the members that there are, as cache.Created, and then what changes; see cache.Cache.Changes.
func (g *Group) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for ch, err := range g.c.Changes(ctx) {
			switch {
			case err != nil:
				yield(Change{}, operr.Wrap("group", g.c.Path(), err, false))
				return
			case ch.Kind == cache.Reread:
				if !yield(Change{Kind: ch.Kind}, nil) {
					return
				}
			case ch.Node.Path != g.c.Path() && zk.Parent(ch.Node.Path) == g.c.Path():
				out := Change{Kind: ch.Kind, Member: infoOf(ch.Node)}
				if ch.Kind == cache.Changed {
					out.Old = infoOf(ch.Old)
				}
				if !yield(out, nil) {
					return
				}
			}
		}
	}
}

// Changed returns a channel that is closed when the members may have changed; look again then, and call Changed again before.
func (g *Group) Changed() <-chan struct{} {
	_, changed := g.c.State()
	return changed
}

// Stale returns why the members may be behind what the ensemble has; nil if they are not.
func (g *Group) Stale() error {
	st, _ := g.c.State()
	return st.Stale
}

// Done is closed when the Group follows no more. It keeps the members that it knows.
func (g *Group) Done() <-chan struct{} { return g.c.Done() }

// Err returns nil until Done is closed, and then why the Group follows no more.
func (g *Group) Err() error { return operr.Wrap("group", g.c.Path(), g.c.Err(), false) }

// Close ends the Group. Closing again is harmless.
func (g *Group) Close(ctx context.Context) error { return g.c.Close(ctx) }
