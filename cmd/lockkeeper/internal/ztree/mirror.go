package ztree

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Step is one thing that a mirror has to do to make B like A.
type Step struct {
	Do   string // "create", "set", "acl", "delete", "keep"
	Path string // in B
}

// A Mirror makes one tree like another: it creates, sets and, if told so, deletes.
type Mirror struct {
	From     *client.Session
	FromRoot string
	To       *client.Session
	ToRoot   string
	Delete   bool // what is only in the target; else it is kept
	OpenACL  bool // ACLs are not compared, and znodes are made open to all
	Apply    bool // otherwise the steps are only told
	Rate     float64
	Tell     func(Step) error // of each step, before it is done
	Progress func(done int)   // may be nil
}

// An aclChange is an ACL that is to be set if the present one is that of the comparison.
type aclChange struct {
	path     string
	acl      []zk.ACL
	aversion int32
}

// Run compares the trees and does what is to be done. A change of the target meanwhile makes it fail with
// zk.ErrBadVersion. Since it begins with a comparison, running again goes on.
func (m *Mirror) Run(ctx context.Context) (done int, left LeftOut, err error) {
	target := m.ToRoot
	if _, there, err := m.To.Exists(ctx, target); err != nil {
		return 0, left, err
	} else if !there {
		if !m.Apply {
			left, err = m.plan(ctx)
			return 0, left, err
		}
		if err := m.createRoot(ctx); err != nil {
			return 0, left, err
		}
	}
	w := &Writer{S: m.To, Rate: m.Rate, Progress: m.Progress}
	var deletes []*Node
	var acls []aclChange
	left, err = Diff(ctx, m.From, m.FromRoot, m.To, target, m.OpenACL, func(d Difference) error {
		path := Absolute(target, d.Path)
		switch {
		case d.A == nil:
			step := Step{"keep", path}
			if m.Delete {
				step.Do = "delete"
				deletes = append(deletes, &Node{Path: path, Stat: d.B.Stat})
			}
			return m.Tell(step)
		case m.OpenACL: // those of A do not matter
			d.A.ACL = nil
		default:
			if err := whole(d.A); err != nil {
				return err
			}
		}
		if d.B == nil {
			if err := m.Tell(Step{"create", path}); err != nil || !m.Apply {
				return err
			}
			return w.Create(ctx, Record{Path: path, Data: d.A.Data, ACL: d.A.ACL})
		}
		if d.Data {
			if err := m.Tell(Step{"set", path}); err != nil {
				return err
			}
			if m.Apply {
				if err := w.Add(ctx, client.OpSet(path, d.A.Data, d.B.Stat.Version), len(path)+len(d.A.Data)); err != nil {
					return err
				}
			}
		}
		if d.ACL {
			acls = append(acls, aclChange{path, d.A.ACL, d.B.Stat.Aversion})
			return m.Tell(Step{"acl", path})
		}
		return nil
	})
	if m.Apply {
		err = w.End(ctx, err)
	}
	if err != nil || !m.Apply {
		return w.Done, left, err
	}
	for i := len(deletes) - 1; i >= 0; i-- {
		n := deletes[i]
		if err := w.Add(ctx, client.OpDelete(n.Path, n.Stat.Version), len(n.Path)); err != nil {
			return w.Done, left, err
		}
	}
	if err := w.Flush(ctx); err != nil {
		return w.Done, left, err
	}
	for _, c := range acls { // no multi has them
		if err := w.pace(ctx, 1); err != nil {
			return w.Done, left, err
		}
		if _, err := m.To.SetACL(ctx, c.path, c.acl, c.aversion); err != nil {
			return w.Done, left, err
		}
		w.done(1)
	}
	return w.Done, left, nil
}

// createRoot makes the root of the target, and what is missing above it.
func (m *Mirror) createRoot(ctx context.Context) error {
	data, _, err := m.From.Get(ctx, m.FromRoot)
	if err != nil {
		return err
	}
	var acl []zk.ACL
	if !m.OpenACL {
		if acl, _, err = m.From.ACL(ctx, m.FromRoot); err != nil {
			return err
		}
		if err := whole(&Node{Path: m.FromRoot, ACL: acl}); err != nil {
			return err
		}
	}
	if err := m.Tell(Step{"create", m.ToRoot}); err != nil {
		return err
	}
	if err := m.To.EnsurePath(ctx, zk.Parent(m.ToRoot), nil); err != nil {
		return err
	}
	_, err = m.To.Create(ctx, m.ToRoot, data, zk.Persistent, acl)
	return err
}

// plan tells what a mirror into a place that is not there would do.
func (m *Mirror) plan(ctx context.Context) (left LeftOut, err error) {
	err = lasting(ctx, m.From, m.FromRoot, &left, func(n *Node) error {
		if !m.OpenACL {
			if err := whole(n); err != nil {
				return err
			}
		}
		return m.Tell(Step{"create", Absolute(m.ToRoot, Relative(m.FromRoot, n.Path))})
	})
	return left, err
}
