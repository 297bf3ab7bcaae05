package store

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A twin is the slow and obvious tree that tests load from a store and write snapshots of. It
// follows the rules of replay to the letter, so that it can be held against what ZooKeeper wrote.
type twin struct {
	nodes    map[string]txn.Node
	acls     map[string][]zk.ACL // by path
	table    map[int64][]zk.ACL
	sessions map[int64]int32
	zxid     int64
	resets   int
	digest   *SnapshotDigest
	digests  int      // that were checked
	wrong    []string // digests that did not match
}

func (w *twin) Reset() {
	*w = twin{nodes: map[string]txn.Node{}, acls: map[string][]zk.ACL{}, table: map[int64][]zk.ACL{}, sessions: map[int64]int32{}, resets: w.resets + 1}
}

func (w *twin) Session(e txn.SessionEntry) error { w.sessions[e.ID] = e.Timeout; return nil }
func (w *twin) ACL(e txn.ACLEntry) error         { w.table[e.ID] = e.ACL; return nil }

func (w *twin) Node(n txn.Node) error {
	if _, ok := w.nodes[parentOf(n.Path)]; !ok && n.Path != "" {
		return fmt.Errorf("node %s without parent", n.Path)
	}
	acl, ok := w.table[n.ACLID]
	if n.ACLID == txn.OpenACLID {
		acl, ok = zk.OpenACL(), true
	}
	if !ok {
		return fmt.Errorf("node %s has unknown ACL %d", n.Path, n.ACLID)
	}
	n.ACLID = 0
	w.nodes[n.Path], w.acls[n.Path] = n, acl
	return nil
}

func (w *twin) EndSnapshot(zxid int64, d *SnapshotDigest) error {
	w.zxid, w.digest = zxid, d
	if len(w.nodes) == 0 {
		for _, path := range []string{"", "/zookeeper", "/zookeeper/quota"} {
			w.nodes[path], w.acls[path] = txn.Node{Path: path, Data: []byte{}}, zk.OpenACL()
		}
	}
	if d != nil && d.Zxid == zxid && zxid > 0 { // ZooKeeper gives an empty tree a sum of 0
		w.check(d.Digest)
	}
	return nil
}

func (w *twin) Apply(t *txn.Txn, d *txn.Digest) error {
	if t.Zxid > w.zxid {
		w.zxid = t.Zxid
	}
	if t.Type != wire.OpMulti || !t.Failed() {
		w.apply(t, &t.Change)
	}
	if d != nil {
		w.check(*d)
	}
	return nil
}

func (w *twin) apply(t *txn.Txn, c *txn.Change) {
	switch c.Type {
	case wire.OpMulti:
		for i := range c.Subs {
			w.apply(t, &c.Subs[i])
		}
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		w.create(t, c)
	case wire.OpDelete, wire.OpDeleteContainer:
		w.delete(c.Path, t.Zxid)
	case wire.OpSetData:
		if n, ok := w.nodes[c.Path]; ok {
			n.Data, n.Version, n.Mzxid, n.Mtime = c.Data, c.Version, t.Zxid, t.Time
			w.nodes[c.Path] = n
		}
	case wire.OpSetACL:
		if n, ok := w.nodes[c.Path]; ok {
			n.Aversion = c.Version
			w.nodes[c.Path], w.acls[c.Path] = n, c.ACL
		}
	case wire.OpCreateSession:
		w.sessions[t.Session] = c.Timeout
	case wire.OpCloseSession:
		delete(w.sessions, t.Session)
		for _, path := range c.Paths {
			w.delete(path, t.Zxid)
		}
		for _, path := range slices.Sorted(maps.Keys(w.nodes)) {
			if t.Session != 0 && txn.OwnerSession(w.nodes[path].Owner) == t.Session {
				w.delete(path, t.Zxid)
			}
		}
	}
}

func (w *twin) create(t *txn.Txn, c *txn.Change) {
	parent, ok := w.nodes[parentOf(c.Path)]
	if !ok {
		return
	}
	if version := cmp.Or(max(c.ParentCversion, 0), parent.Cversion+1); version > parent.Cversion {
		parent.Cversion, parent.Pzxid = version, t.Zxid
		w.nodes[parent.Path] = parent
	}
	if _, ok := w.nodes[c.Path]; ok {
		return
	}
	n := txn.Node{Path: c.Path, Data: c.Data, Czxid: t.Zxid, Mzxid: t.Zxid, Pzxid: t.Zxid, Ctime: t.Time, Mtime: t.Time}
	switch {
	case c.Type == wire.OpCreateContainer:
		n.Owner = txn.OwnerContainer
	case c.Type == wire.OpCreateTTL:
		n.Owner = txn.OwnerTTL | c.TTL
	case c.Ephemeral:
		n.Owner = t.Session
	}
	w.nodes[c.Path], w.acls[c.Path] = n, c.ACL
}

func (w *twin) delete(path string, zxid int64) {
	delete(w.nodes, path)
	delete(w.acls, path)
	if parent, ok := w.nodes[parentOf(path)]; ok {
		parent.Pzxid = max(parent.Pzxid, zxid)
		w.nodes[parent.Path] = parent
	}
}

func parentOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// sum is ZooKeeper's digest of the whole tree.
func (w *twin) sum() (sum uint64) {
	for path, n := range w.nodes {
		if strings.HasPrefix(path, "/zookeeper/") {
			continue
		}
		b := append([]byte(path), n.Data...)
		for _, v := range []int64{n.Czxid, n.Mzxid, n.Pzxid, n.Ctime, n.Mtime} {
			b = wire.AppendInt64(b, v)
		}
		for _, v := range []int32{n.Version, n.Cversion, n.Aversion} {
			b = wire.AppendInt32(b, v)
		}
		sum += uint64(crc32.ChecksumIEEE(wire.AppendInt64(b, n.Owner)))
	}
	return sum
}

func (w *twin) check(d txn.Digest) {
	w.digests++
	if got := w.sum(); got != d.Tree {
		w.wrong = append(w.wrong, fmt.Sprintf("after 0x%x: digest %d, the file says %d", w.zxid, got, d.Tree))
	}
}

// equal reports whether two twins have the same state.
func (w *twin) equal(v *twin) bool {
	return w.zxid == v.zxid && reflect.DeepEqual(w.nodes, v.nodes) && reflect.DeepEqual(w.acls, v.acls) && maps.Equal(w.sessions, v.sessions)
}

// dump describes everything that counts.
func (w *twin) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "zxid 0x%x\n", w.zxid)
	for _, id := range slices.Sorted(maps.Keys(w.sessions)) {
		fmt.Fprintf(&b, "session 0x%x %dms\n", id, w.sessions[id])
	}
	for _, path := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[path]
		fmt.Fprintf(&b, "%q null=%t %x %v %+v\n", path, n.Data == nil, n.Data, w.acls[path], n)
	}
	return b.String()
}

// snapshot returns a Source of the twin as it is now.
func (w *twin) snapshot() Source {
	s := &twinSource{zxid: w.zxid, digest: &SnapshotDigest{w.zxid, txn.Digest{Version: 2, Tree: w.sum()}}}
	for _, id := range slices.Sorted(maps.Keys(w.sessions)) {
		s.sessions = append(s.sessions, txn.SessionEntry{ID: id, Timeout: w.sessions[id]})
	}
	ids := map[string]int64{}
	for _, path := range slices.Sorted(maps.Keys(w.nodes)) {
		key := fmt.Sprint(w.acls[path])
		if ids[key] == 0 {
			ids[key] = int64(len(ids) + 1)
			s.acls = append(s.acls, txn.ACLEntry{ID: ids[key], ACL: w.acls[path]})
		}
		n := w.nodes[path]
		n.ACLID = ids[key]
		s.nodes = append(s.nodes, n)
	}
	return s
}

// A twinSource gives what it holds, seven nodes at a time.
type twinSource struct {
	zxid     int64
	sessions []txn.SessionEntry
	acls     []txn.ACLEntry
	nodes    []txn.Node
	digest   *SnapshotDigest
	err      error // given after the nodes
}

func (s *twinSource) Zxid() int64                  { return s.zxid }
func (s *twinSource) Sessions() []txn.SessionEntry { return s.sessions }
func (s *twinSource) ACLs() []txn.ACLEntry         { return s.acls }
func (s *twinSource) Digest() *SnapshotDigest      { return s.digest }

func (s *twinSource) Next(buf []txn.Node) ([]txn.Node, error) {
	n := min(7, len(s.nodes))
	buf = append(buf, s.nodes[:n]...)
	s.nodes = s.nodes[n:]
	if n == 0 {
		return buf, s.err
	}
	return buf, nil
}
