package ztree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Relative returns a path below root relative to it; root itself is "/".
func Relative(root, path string) string {
	if root == "/" {
		return path
	}
	if path == root {
		return "/"
	}
	return path[len(root):]
}

// Absolute is the inverse of Relative.
func Absolute(root, rel string) string {
	switch {
	case rel == "/":
		return root
	case root == "/":
		return rel
	}
	return root + rel
}

// LeftOut counts what does not belong to a tree's lasting part: ephemerals, and so the contenders of locks.
type LeftOut struct {
	Ephemerals int
	Queued     int // of these, those with a counter in their name, as in the queue of a lock
}

func (l *LeftOut) add(n *Node) {
	l.Ephemerals++
	name := zk.Base(n.Path)
	if len(name) > 10 && strings.Trim(name[len(name)-10:], "0123456789") == "" {
		l.Queued++
	}
}

func (l LeftOut) String() string {
	return fmt.Sprintf("%d ephemeral znodes left out, %d of them with a counter, as in the queue of a lock", l.Ephemerals, l.Queued)
}

// lasting walks the persistent znodes of a tree, with data and ACL. A znode that cannot be read ends it.
func lasting(ctx context.Context, s *client.Session, root string, left *LeftOut, visit func(*Node) error) error {
	return Walk(ctx, s, root, WalkOptions{Data: true, ACL: true, Skip: System(s, root)}, func(n *Node) error {
		switch {
		case n.Err != nil:
			return n.Err
		case Ephemeral(&n.Stat):
			left.add(n)
			return nil
		}
		return visit(n)
	})
}

// whole refuses an ACL without the hashes of its digests, which servers show only to clients that may change it. The same
// ACL on a copy would shut out all users that it names.
func whole(n *Node) error {
	hidden := false
	for _, a := range n.ACL {
		if a.Scheme == "world" && a.Perms&zk.PermAdmin != 0 {
			return nil // shown to all
		}
		hidden = hidden || a.Scheme == "digest" && strings.HasSuffix(a.ID, ":x")
	}
	if !hidden {
		return nil
	}
	return fmt.Errorf("%s: without the permission to change its ACL, the hashes in it are not shown: %w", Escape(n.Path), zk.ErrNoAuth)
}

// Export writes a tree to w in the format of this package, without ACLs if openACL says so.
func Export(ctx context.Context, s *client.Session, root string, openACL bool, w io.Writer, progress func(done int)) (znodes int, left LeftOut, err error) {
	e, err := NewExporter(w, root)
	if err != nil {
		return 0, left, err
	}
	err = lasting(ctx, s, root, &left, func(n *Node) error {
		if progress != nil {
			progress(e.znodes)
		}
		if openACL {
			n.ACL = nil
		}
		if err := whole(n); err != nil {
			return err
		}
		return e.Add(Record{Path: Relative(root, n.Path), Data: n.Data, ACL: n.ACL})
	})
	if err != nil {
		return e.znodes, left, err
	}
	e.leftOut = left.Ephemerals
	return e.znodes, left, e.End()
}

// An Importer writes the records of an export below a root.
type Importer struct {
	Writer
	Root    string
	OpenACL bool // do not take over the ACLs
	begun   bool // Root is there
}

// Add writes a record. The root of an export becomes Root: that may be there already, if it is empty. Exports of others
// may have no root of their own.
func (i *Importer) Add(ctx context.Context, r Record) error {
	if i.OpenACL {
		r.ACL, r.NoACL = nil, false
	}
	path := Absolute(i.Root, r.Path)
	if r.Path != "/" {
		if !i.begun {
			if err := i.S.EnsurePath(ctx, i.Root, nil); err != nil {
				return err
			}
			i.begun = true
		}
		if r.Implied {
			return i.parent(ctx, path)
		}
		r.Path = path
		return i.Create(ctx, r)
	}
	i.begun = true
	r.Path = path
	if path == "/" && len(r.Data) == 0 && IsOpen(r.ACL) {
		return nil // it is always there
	}
	if err := i.S.EnsurePath(ctx, zk.Parent(path), nil); err != nil {
		return err
	}
	var err error
	if path == "/" {
		err = fmt.Errorf("%w, is not empty, and is to get data or an ACL", &client.OpError{Op: "create", Path: path, Err: zk.ErrNodeExists})
	} else {
		_, err = i.S.Create(ctx, path, r.Data, zk.Persistent, r.ACL)
	}
	if err == nil {
		i.done(1)
		return nil
	}
	if !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	write := i.Existing == Overwrite
	if i.Existing == Fail {
		empty, err := i.empty(ctx, path)
		if err != nil {
			return err
		}
		write = empty
	}
	switch {
	case write:
		err = i.overwrite(ctx, r)
		if err == nil {
			i.done(1)
		}
	case i.Existing == Skip:
		i.Skipped++
		return nil
	}
	return err
}

// parent makes a znode that the export does not name, unless it is there.
func (i *Importer) parent(ctx context.Context, path string) error {
	if err := i.Flush(ctx); err != nil { // its own parent may be among what has been added
		return err
	}
	switch _, err := i.S.Create(ctx, path, nil, zk.Persistent, nil); {
	case err == nil:
		i.done(1)
		return nil
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	}
	return i.S.EnsurePath(ctx, path, nil) // the answer may have been lost
}

// empty reports whether a znode has no data, no ACL and no children, but for ZooKeeper's own.
func (i *Importer) empty(ctx context.Context, path string) (bool, error) {
	names, st, err := i.S.Children(ctx, path)
	if err != nil || st.DataLength > 0 {
		return false, err
	}
	own := System(i.S, path)
	for _, name := range names {
		if !own(zk.Join(path, name)) {
			return false, nil
		}
	}
	acl, _, err := i.S.ACL(ctx, path)
	return IsOpen(acl), err
}

// Copy writes the lasting part of a tree below another root, maybe on other servers.
func Copy(ctx context.Context, from *client.Session, root string, to *Importer) (left LeftOut, err error) {
	return copyTree(ctx, from, root, to, func(*Node) {})
}

// copyTree is Copy, and shows each znode as it was copied.
func copyTree(ctx context.Context, from *client.Session, root string, to *Importer, copied func(*Node)) (left LeftOut, err error) {
	err = lasting(ctx, from, root, &left, func(n *Node) error {
		if to.OpenACL {
			n.ACL = nil
		}
		if err := whole(n); err != nil {
			return err
		}
		copied(n)
		return to.Add(ctx, Record{Path: Relative(root, n.Path), Data: n.Data, ACL: n.ACL})
	})
	return left, to.End(ctx, err)
}

// moveMax is how many znodes are moved in one transaction.
const moveMax = 400

// ErrTooLarge is returned by MoveAtOnce for a tree that does not fit into one transaction.
var ErrTooLarge = errors.New("the tree is too large for one transaction")

// ErrEphemerals is returned for a tree that cannot be moved because sessions own some of it.
var ErrEphemerals = errors.New("it has ephemeral znodes, which cannot be moved")

// MoveAtOnce moves a small tree in one transaction: others see it at one place or at the other. It fails if a znode
// changes meanwhile, or if there is an ephemeral, which cannot be moved. What no transaction can check, an ACL and whether a znode
// was made again, is looked at right before it.
func MoveAtOnce(ctx context.Context, s *client.Session, from, to string) (int, error) {
	var creates, deletes []client.Op
	var nodes []version
	size := 0
	left := LeftOut{}
	err := lasting(ctx, s, from, &left, func(n *Node) error {
		if err := whole(n); err != nil {
			return err
		}
		creates = append(creates, client.OpCreate(Absolute(to, Relative(from, n.Path)), n.Data, zk.Persistent, n.ACL))
		deletes = append(deletes, client.OpDelete(n.Path, n.Stat.Version))
		nodes = append(nodes, versionOf(n.Path, &n.Stat))
		size += len(n.Data) + 2*len(n.Path)
		if len(creates) > moveMax || size > bytesInMulti {
			return ErrTooLarge
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if left.Ephemerals > 0 {
		return 0, fmt.Errorf("move %s: %w (%d of them; nothing has been done)", Escape(from), ErrEphemerals, left.Ephemerals)
	}
	if err := s.EnsurePath(ctx, zk.Parent(to), nil); err != nil {
		return 0, err
	}
	if _, err := unchanged(ctx, s, nodes); err != nil {
		return 0, err
	}
	slices.Reverse(deletes)
	if _, err := s.Multi(ctx, append(creates, deletes...)...); err != nil {
		return 0, err
	}
	return len(creates), nil
}

// ErrChanged is returned for a tree that was changed while it was moved.
var ErrChanged = errors.New("it was changed meanwhile")

// MoveByCopy moves a tree that does not fit into one transaction: it copies the tree, compares, and then deletes what it
// has copied. It deletes nothing that has changed since, and nothing that is new; then both trees are there, and the
// error says so. It tells copied and removed, which may be nil, how far it has come.
func MoveByCopy(ctx context.Context, s *client.Session, from, to string, copied, removed func(done int)) (int, error) {
	again := "rm -r the copy " + Escape(to) + " and try again"
	target := &Importer{Root: to, Writer: Writer{S: s, Progress: copied}}
	var nodes []version
	left, err := copyTree(ctx, s, from, target, func(n *Node) { nodes = append(nodes, versionOf(n.Path, &n.Stat)) })
	if err != nil && target.Done == 0 && !client.MaybeApplied(err) { // what is there is no copy
		return 0, err
	}
	if err != nil {
		return 0, &PartError{Done: target.Done, Did: "copied, and none removed,", Next: again, Err: err}
	}
	now, err := Diff(ctx, s, from, s, to, false, func(d Difference) error {
		return fmt.Errorf("move %s: %w", Escape(Absolute(from, d.Path)), ErrChanged)
	})
	if err == nil && left.Ephemerals+now.Ephemerals > 0 {
		err = fmt.Errorf("move %s: %w", Escape(from), ErrEphemerals)
	}
	if err != nil {
		return 0, &PartError{Did: "removed, and both trees are there", Next: again, Err: err}
	}
	n, err := removeVersions(ctx, s, nodes, removed)
	if err == nil {
		return n, nil
	}
	part := &PartError{Done: n, Did: "removed", Err: err,
		Next: "cp --existing overwrite " + Escape(from) + " " + Escape(to) + " takes over what is left of " + Escape(from) + ", and rm -r removes it"}
	switch {
	case n == 0 && errors.Is(err, ErrChanged):
		part.Did, part.Next = "removed, and both trees are there", again
	case errors.Is(err, ErrChanged), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNotEmpty):
		part.Next = "both trees are there: " + part.Next
	case n == 0 && !client.MaybeApplied(err): // the connection may have broken, and the copy may be all that there is
		part.Did = "removed that is known of"
	}
	return n, part
}

// A Difference is a znode that is not the same in two trees.
type Difference struct {
	Path string // relative to both roots
	A, B *Node  // nil where it is missing
	Data bool   // the data differs
	ACL  bool   // the ACL differs
}

// Diff compares the lasting parts of two trees, and calls see for each znode that is not the same in both, parents
// first. It holds a few thousand znodes of each at most. ACLs that look the same because their hashes are not shown are an error,
// unless ACLs are ignored.
func Diff(ctx context.Context, a *client.Session, rootA string, b *client.Session, rootB string, ignoreACL bool, see func(Difference) error) (left LeftOut, err error) {
	ctx, cancel := context.WithCancel(ctx)
	inA, inB := stream(ctx, a, rootA), stream(ctx, b, rootB)
	defer func() {
		cancel()
		for range inA.nodes { // until the walks have ended
		}
		for range inB.nodes {
		}
		left.Ephemerals = inA.left.Ephemerals + inB.left.Ephemerals
		left.Queued = inA.left.Queued + inB.left.Queued
	}()
	x, y := inA.next(), inB.next()
	for x != nil || y != nil {
		d := Difference{A: x, B: y}
		order := 0
		switch {
		case x == nil:
			order = 1
		case y == nil:
			order = -1
		default:
			order = ComparePaths(Relative(rootA, x.Path), Relative(rootB, y.Path))
		}
		switch {
		case order < 0:
			d.B, d.Path = nil, Relative(rootA, x.Path)
			x = inA.next()
		case order > 0:
			d.A, d.Path = nil, Relative(rootB, y.Path)
			y = inB.next()
		default:
			d.Path = Relative(rootA, x.Path)
			d.Data, d.ACL = !bytes.Equal(x.Data, y.Data), !ignoreACL && !slices.Equal(x.ACL, y.ACL)
			x, y = inA.next(), inB.next()
			if !d.Data && !d.ACL {
				if err := whole(d.A); err != nil && !ignoreACL {
					return left, err
				}
				continue
			}
		}
		// A walk that failed looks like the end of its tree. What is missing then is not a difference.
		if inA.err != nil || inB.err != nil {
			break
		}
		if err := see(d); err != nil {
			return left, err
		}
	}
	if inA.err != nil && inB.err != nil && inA.err.Error() == inB.err.Error() { // of a tree that is compared to itself
		return left, inA.err
	}
	return left, errors.Join(inA.err, inB.err)
}

// A nodeStream is a walk that runs beside its reader.
type nodeStream struct {
	nodes chan *Node // closed when the walk has ended
	ended error      // set before that
	left  LeftOut    // likewise
	err   error      // ended, once it has been seen
}

// streamAhead is how many nodes a walk is ahead of its reader, besides what it reads ahead by itself.
const streamAhead = 256

func stream(ctx context.Context, s *client.Session, root string) *nodeStream {
	in := &nodeStream{nodes: make(chan *Node, streamAhead)}
	go func() {
		defer close(in.nodes)
		in.ended = lasting(ctx, s, root, &in.left, func(n *Node) error {
			kept := *n
			select {
			case in.nodes <- &kept:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	return in
}

// next returns the next node, or nil when there is none, and then err says why.
func (in *nodeStream) next() *Node {
	n, more := <-in.nodes
	if !more {
		in.err = in.ended
	}
	return n
}
