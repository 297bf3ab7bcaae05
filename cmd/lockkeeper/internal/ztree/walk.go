package ztree

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Node is a znode of a walk.
type Node struct {
	Path string
	Data []byte   // only if the walk is with data
	ACL  []zk.ACL // only if the walk is with ACLs
	Stat zk.Stat
	Err  error // why it could not be read; the walk goes on, and knows nothing else of the znode
}

// Depth returns how many steps below root the znode is.
func (n *Node) Depth(root string) int {
	depth := 0
	for path := n.Path; path != root && path != "/"; path = zk.Parent(path) {
		depth++
	}
	return depth
}

// WalkOptions say what a walk reads.
type WalkOptions struct {
	Data  bool
	ACL   bool
	Depth int                    // how far below the root it goes; 0 is no limit
	Skip  func(path string) bool // leaves a znode out, with all below it; may be nil

	// Unlisted is called with a znode below the root whose children may not be listed, and the walk goes on without them.
	// If it is nil, such a znode ends the walk with the error; the root always does.
	Unlisted func(path string)
}

// ErrSkipChildren in place of an error keeps a walk from going below a znode.
var ErrSkipChildren = errors.New("skip the children")

const (
	requestsMax = 400      // in one pipeline
	nodesAhead  = 4000     // read before they are shown
	bytesAhead  = 16 << 20 // of data, likewise, if the data is about as large as what was read last
	batchFirst  = 16       // znodes, as long as it is not known how large their data is
)

// Walk visits root and all znodes below it, parents first, children by name. It reads ahead, at most nodesAhead znodes.
// A root that is not there is zk.ErrNoNode. What visit returns ends the walk, except ErrSkipChildren.
func Walk(ctx context.Context, s *client.Session, root string, opt WalkOptions, visit func(*Node) error) error {
	w := &walker{ctx: ctx, s: s, opt: opt, visit: visit, batch: batchFirst}
	top := &item{Node: Node{Path: root}}
	if err := w.read([]*item{top}); err != nil {
		return err
	}
	if top.gone {
		return &client.OpError{Op: "read", Path: root, Err: zk.ErrNoNode}
	}
	if top.Err != nil {
		return top.Err
	}
	return w.show([]*item{top})
}

// An item is a znode that has been read and not shown yet.
type item struct {
	Node
	depth  int
	gone   bool
	listed bool // kids are known
	kids   []*item
}

type walker struct {
	ctx   context.Context
	s     *client.Session
	opt   WalkOptions
	visit func(*Node) error
	batch int // how many znodes to read at once
}

// advance reads items, and below them as many levels as fit, and shows them.
func (w *walker) advance(items []*item) error {
	total, largest := len(items), 0
	for level := items; len(level) > 0; {
		if err := w.read(level); err != nil {
			return err
		}
		room := nodesAhead - total
		for _, it := range level {
			largest = max(largest, len(it.Data))
		}
		room = min(room, bytesAhead/max(largest, 1))
		var fits []*item
		for _, it := range level {
			if n := int(it.Stat.NumChildren); w.descends(it) && n <= room {
				room -= n
				fits = append(fits, it)
			}
		}
		if err := w.list(fits); err != nil {
			return err
		}
		level = nil
		for _, it := range fits {
			level = append(level, it.kids...)
		}
		total += len(level)
	}
	w.batch = min(nodesAhead, 4*w.batch, max(bytesAhead/max(largest, 1), 1))
	return w.show(items)
}

func (w *walker) descends(it *item) bool {
	return !it.gone && it.Err == nil && it.Stat.NumChildren > 0 && (w.opt.Depth == 0 || it.depth < w.opt.Depth)
}

// show visits items and all below them.
func (w *walker) show(items []*item) error {
	for i, it := range items {
		items[i] = nil // its data need not be kept any longer
		if it.gone {
			continue
		}
		err := w.visit(&it.Node)
		if errors.Is(err, ErrSkipChildren) {
			continue
		}
		if err != nil {
			return err
		}
		if it.listed {
			if err := w.show(it.kids); err != nil {
				return err
			}
			continue
		}
		if !w.descends(it) {
			continue
		}
		it.Data = nil
		if err := w.list([]*item{it}); err != nil {
			return err
		}
		for rest := it.kids; len(rest) > 0; {
			n := min(len(rest), w.batch)
			if err := w.advance(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	return nil
}

// list finds the names of the items' children.
func (w *walker) list(items []*item) error {
	return Batches(w.ctx, w.s, items, requestsMax, func(p *client.Pipeline, it *item) func() error {
		pending := p.Children(it.Path)
		return func() error {
			found, err := pending.Wait(w.ctx)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				it.listed = true
				return nil
			case errors.Is(err, zk.ErrNoAuth) && it.depth > 0 && w.opt.Unlisted != nil:
				it.listed = true
				w.opt.Unlisted(it.Path)
				return nil
			case err != nil:
				return err
			}
			it.listed = true
			slices.Sort(found.Names)
			it.kids = make([]*item, 0, len(found.Names))
			for _, name := range found.Names {
				path := zk.Join(it.Path, name)
				if w.opt.Skip == nil || !w.opt.Skip(path) {
					it.kids = append(it.kids, &item{Node: Node{Path: path}, depth: it.depth + 1})
				}
			}
			return nil
		}
	})
}

// read reads the items themselves.
func (w *walker) read(items []*item) error {
	return Batches(w.ctx, w.s, items, requestsMax, func(p *client.Pipeline, it *item) func() error {
		var node *client.Pending[client.Node]
		var stat *client.Pending[zk.Stat]
		var acl *client.Pending[client.Access]
		if w.opt.Data {
			node = p.Get(it.Path)
		} else {
			stat = p.Exists(it.Path)
		}
		if w.opt.ACL {
			acl = p.ACL(it.Path)
		}
		return func() error {
			var err error
			if node != nil {
				var n client.Node
				n, err = node.Wait(w.ctx)
				it.Data, it.Stat = n.Data, n.Stat
			} else {
				it.Stat, err = stat.Wait(w.ctx)
			}
			if err == nil && acl != nil {
				var a client.Access
				a, err = acl.Wait(w.ctx)
				it.ACL = a.ACL
			}
			switch {
			case errors.Is(err, zk.ErrNoNode):
				it.gone, err = true, nil
			case errors.Is(err, zk.ErrNoAuth):
				it.Err, err = err, nil
			}
			return err
		}
	})
}

// Batches adds a request for each item to pipelines of at most size items, and waits for the answers in order. Two
// pipelines are under way at a time. ask returns what waits for its answer. What a broken connection has left without
// an answer is asked again, so only reads go through here.
func Batches[T any](ctx context.Context, s *client.Session, items []T, size int, ask func(*client.Pipeline, T) func() error) error {
	sent := 0 // items that have been asked for
	waits := make([]func() error, 0, min(len(items), 2*size))
	for done := 0; done < len(items); {
		for sent < len(items) && len(waits) <= size {
			p := s.Pipeline()
			end := min(sent+size, len(items))
			for _, it := range items[sent:end] {
				waits = append(waits, ask(p, it))
			}
			sent = end
			p.Send(ctx)
		}
		answered := min(len(waits), size)
		for i, wait := range waits[:answered] {
			err := wait()
			if errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil {
				if err := reconnected(ctx, s); err != nil {
					return err
				}
				answered, sent = i, done+i // from here again
				waits = waits[:i]
				break
			}
			if err != nil {
				return err
			}
		}
		waits = append(waits[:0], waits[answered:]...)
		done += answered
	}
	return nil
}

// reconnected waits until the session has a server again.
func reconnected(ctx context.Context, s *client.Session) error {
	for {
		st, changed := s.State()
		if st.Phase == client.Connected {
			return nil
		}
		if st.Phase.Final() {
			return s.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
