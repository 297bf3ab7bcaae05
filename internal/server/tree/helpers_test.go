package tree

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A site is a tree in the making: every request gets the next zxid and is applied at once. Time is
// a hundred times the zxid.
type site struct {
	t    *testing.T
	tree *Tree
	d    *Draft
	who  Identities
	zxid int64
	out  Outcome
}

func newSite(t *testing.T, o Options) *site {
	tr := New(true)
	return &site{t: t, tree: tr, d: NewDraft(tr, o)}
}

func (s *site) req() *Request {
	s.zxid++
	return &Request{Session: 1, Cxid: 1, Zxid: s.zxid, Time: s.zxid * 100, Who: s.who}
}

func (s *site) apply(tx txn.Txn) zk.Code {
	s.d.Reset()
	s.tree.Apply(&tx, &s.out)
	return s.out.Err
}

func (s *site) op(op wire.MultiOp) zk.Code {
	r := s.req()
	return s.apply(s.d.Op(r, &op))
}

func (s *site) create(path string, mode zk.Mode) string {
	s.t.Helper()
	op := wire.MultiOp{Op: wire.OpCreate, Path: path, Data: []byte("x"), ACL: zk.OpenACL(), Mode: mode}
	if mode == zk.Container {
		op.Op = wire.OpCreateContainer
	}
	if code := s.op(op); code != zk.OK {
		s.t.Fatalf("create %s: %v", path, code)
	}
	return s.out.Path
}

func (s *site) delete(path string) {
	s.t.Helper()
	if code := s.op(wire.MultiOp{Op: wire.OpDelete, Path: path, Version: -1}); code != zk.OK {
		s.t.Fatalf("delete %s: %v", path, code)
	}
}

func (s *site) setACL(path string, acl []zk.ACL) {
	s.t.Helper()
	r := s.req()
	if code := s.apply(s.d.SetACL(r, &wire.SetACLRequest{Path: path, ACL: acl, Version: -1})); code != zk.OK {
		s.t.Fatalf("setACL %s: %v", path, code)
	}
}

func (s *site) stat(path string) zk.Stat {
	s.t.Helper()
	stat, ok := s.tree.Lookup(path)
	if !ok {
		s.t.Fatalf("no %s", path)
	}
	return stat
}

// restored returns a site over a tree of the built-in nodes and these.
func restored(t *testing.T, nodes ...txn.Node) *site {
	t.Helper()
	r := NewRestorer(true)
	for _, n := range append([]txn.Node{{ACLID: txn.OpenACLID}}, nodes...) {
		n.ACLID = txn.OpenACLID
		if err := r.Add(&n); err != nil {
			t.Fatal(err)
		}
	}
	tr := r.Finish(0)
	return &site{t: t, tree: tr, d: NewDraft(tr, Options{})}
}

// countBelow counts the znodes below path one by one.
func countBelow(t *Tree, who Identities, path string) (int32, zk.Code) {
	c, code := t.CountBelow(who, path)
	for c.Next(1) {
	}
	return c.N, code
}

var bob = Identities{{SchemeDigest, "bob:hash"}}

func only(perms zk.Perm) []zk.ACL { return []zk.ACL{{Perms: perms, Scheme: SchemeWorld, ID: "anyone"}} }
