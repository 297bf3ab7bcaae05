package tree

import (
	"bytes"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// wantDigest compares the digest with one that is computed from nothing.
func (s *site) wantDigest() {
	s.t.Helper()
	want := uint64(0)
	for i := uint32(1); i <= s.tree.nodes.Last(); i++ {
		n := s.tree.nodes.At(i)
		if n.blob == "" {
			continue
		}
		a := s.tree.attrs(n)
		want += uint64(s.tree.pad.sum(new(head), s.tree.path(i), n.data(), &a))
	}
	if got, _ := s.tree.Digest(); got != (txn.Digest{Version: digestVersion, Tree: want}) {
		s.t.Errorf("digest %d, want %d", got.Tree, want)
	}
}

// A child that comes or goes must not cost the checksum of all data of its parent: one transaction may have a hundred
// thousand of them.
func TestDataOfAParentIsSummedOnce(t *testing.T) {
	s := newSite(t, Options{})
	set := func(path, data string) {
		if code := s.op(wire.MultiOp{Op: wire.OpSetData, Path: path, Data: []byte(data), Version: -1}); code != zk.OK {
			t.Fatalf("set %s: %v", path, code)
		}
	}
	wantKept := func(path string, want bool) {
		t.Helper()
		if got := s.d.nodes[s.d.at(path)].head.known; got != want {
			t.Errorf("the head of %s is known: %v, want %v", path, got, want)
		}
		s.d.Reset()
		s.wantDigest()
	}
	s.create("/d", zk.Persistent)
	set("/d", string(bytes.Repeat([]byte("x"), 1<<20)))
	wantKept("/d", false)
	s.create("/d/a", zk.Ephemeral)
	wantKept("/d", true)
	wantKept("/", true)
	s.create("/d/b", zk.Ephemeral)
	set("/d", "short") // the numbers of children change after the data
	wantKept("/d", true)
	s.apply(s.d.CloseSession(s.req()))
	wantKept("/d", true)
	s.setACL("/d", zk.ReadOnlyACL())
	set("/", "data of the root")
	wantKept("/", true)
}
