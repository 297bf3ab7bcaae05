package tree

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A twin is the tree in its slow and obvious form: a map from paths to nodes, changed in place, one
// request at a time. It knows neither drafts nor transactions.
type twin struct {
	nodes   map[string]*twinNode
	closed  map[int64]bool
	limit   int
	effects []Effect
}

type twinNode struct {
	data  []byte
	acl   []zk.ACL
	attrs attrs
	order int // of creation
}

func newTwin() *twin {
	t := &twin{nodes: map[string]*twinNode{}, closed: map[int64]bool{}}
	for _, p := range []string{"/", "/zookeeper", "/zookeeper/quota"} {
		t.nodes[p] = &twinNode{data: []byte{}, acl: zk.OpenACL()}
	}
	t.nodes["/zookeeper/config"] = &twinNode{data: []byte{}, acl: zk.ReadOnlyACL(), attrs: attrs{aversion: -1}}
	return t
}

func (t *twin) children(path string) []string {
	names := []string{}
	for p := range t.nodes {
		if p != "/" && zk.Parent(p) == path {
			names = append(names, zk.Base(p))
		}
	}
	slices.Sort(names)
	return names
}

func (t *twin) stat(path string) zk.Stat {
	n := t.nodes[path]
	kids := int32(len(t.children(path)))
	return zk.Stat{
		Czxid: n.attrs.czxid, Mzxid: n.attrs.mzxid, Pzxid: n.attrs.pzxid,
		Ctime: n.attrs.ctime, Mtime: n.attrs.mtime,
		Version: n.attrs.version, Cversion: 2*n.attrs.cversion - kids, Aversion: n.attrs.aversion,
		EphemeralOwner: txn.OwnerSession(n.attrs.owner), DataLength: int32(len(n.data)), NumChildren: kids,
	}
}

func (t *twin) fire(typ zk.EventType, path string, zxid int64, acl []zk.ACL) {
	t.effects = append(t.effects, Effect{zk.Event{Type: typ, Path: path, Zxid: zxid}, newAccessList(acl)})
}

// digest sums over everything.
func (t *twin) digest() (sum uint64) {
	for path, n := range t.nodes {
		var d digester
		sum += uint64(d.sum(new(head), path, n.data, &n.attrs))
	}
	return sum
}

func (t *twin) ephemerals(session int64) []string {
	var out []string
	for p, n := range t.nodes {
		if session != 0 && n.attrs.owner == session {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return t.nodes[a].order - t.nodes[b].order })
	return out
}

// twinOrder numbers creations.
var twinOrder int

func (t *twin) do(r *Request, op *wire.MultiOp) (res wire.MultiResult) {
	res.Op = op.Op
	fail := func(c zk.Code) wire.MultiResult { return wire.MultiResult{Op: wire.OpError, Err: c} }
	special := []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}
	slash := strings.Contains(op.Path, "/")
	switch op.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		ttl := op.Mode == zk.PersistentTTL || op.Mode == zk.PersistentSequentialTTL
		if op.Mode < 0 || op.Mode > 6 || ttl != (op.Op == wire.OpCreateTTL) || ttl && (op.TTL < 1 || op.TTL >= 1<<40) {
			return fail(zk.ErrBadArguments)
		}
		if t.closed[r.Session] {
			return fail(zk.ErrSessionExpired)
		}
		if !slash {
			return fail(zk.ErrBadArguments)
		}
		acl, code := resolveACL(r.Who, op.ACL, new(int))
		if code != zk.OK {
			return fail(code)
		}
		parentPath := zk.Parent(op.Path)
		parent := t.nodes[parentPath]
		if parent == nil {
			return fail(zk.ErrNoNode)
		}
		if !mayPlainly(r.Who, parent.acl, zk.PermCreate) {
			return fail(zk.ErrNoAuth)
		}
		path := op.Path
		if op.Mode.Sequential() {
			path += fmt.Sprintf("%010d", parent.attrs.cversion)
		}
		if zk.ValidatePath(path) != nil {
			return fail(zk.ErrBadArguments)
		}
		if t.nodes[path] != nil {
			return fail(zk.ErrNodeExists)
		}
		if txn.OwnerSession(parent.attrs.owner) != 0 {
			return fail(zk.ErrNoChildrenForEphemerals)
		}
		n := &twinNode{data: op.Data, acl: acl, order: twinOrder}
		twinOrder++
		switch {
		case op.Op == wire.OpCreateContainer:
			n.attrs.owner = txn.OwnerContainer
		case ttl:
			n.attrs.owner = txn.OwnerTTL | op.TTL
		case op.Mode.Ephemeral():
			n.attrs.owner = r.Session
			total := len(path) + 4
			for _, p := range t.ephemerals(r.Session) {
				total += len(p) + 4
			}
			if t.limit > 0 && total > t.limit {
				return fail(zk.ErrQuotaExceeded)
			}
		}
		n.attrs.czxid, n.attrs.mzxid, n.attrs.pzxid = r.Zxid, r.Zxid, r.Zxid
		n.attrs.ctime, n.attrs.mtime = r.Time, r.Time
		if c := parent.attrs.cversion + 1; c > parent.attrs.cversion {
			parent.attrs.cversion, parent.attrs.pzxid = c, r.Zxid
		}
		t.nodes[path] = n
		t.fire(zk.NodeCreated, path, r.Zxid, acl)
		t.fire(zk.NodeChildrenChanged, parentPath, r.Zxid, parent.acl)
		if op.Op != wire.OpCreate {
			res.Op = wire.OpCreate2
		}
		res.Path, res.Stat = path, t.stat(path)
		return res
	}
	switch {
	case t.closed[r.Session]:
		return fail(zk.ErrSessionExpired)
	case op.Op == wire.OpDelete && (!slash || slices.Contains(special, op.Path)),
		op.Op != wire.OpDelete && zk.ValidatePath(op.Path) != nil:
		return fail(zk.ErrBadArguments)
	}
	n := t.nodes[op.Path]
	stale := n != nil && op.Version != -1 && op.Version != n.attrs.version
	switch op.Op {
	case wire.OpDelete:
		parent := t.nodes[zk.Parent(op.Path)]
		switch {
		case parent == nil:
			return fail(zk.ErrNoNode)
		case !mayPlainly(r.Who, parent.acl, zk.PermDelete):
			return fail(zk.ErrNoAuth)
		case n == nil:
			return fail(zk.ErrNoNode)
		case stale:
			return fail(zk.ErrBadVersion)
		case len(t.children(op.Path)) > 0:
			return fail(zk.ErrNotEmpty)
		}
		t.remove(op.Path, r.Zxid)
	case wire.OpSetData:
		switch {
		case n == nil:
			return fail(zk.ErrNoNode)
		case !mayPlainly(r.Who, n.acl, zk.PermWrite):
			return fail(zk.ErrNoAuth)
		case stale:
			return fail(zk.ErrBadVersion)
		}
		n.data = op.Data
		n.attrs.version++
		n.attrs.mzxid, n.attrs.mtime = r.Zxid, r.Time
		t.fire(zk.NodeDataChanged, op.Path, r.Zxid, n.acl)
		res.Stat = t.stat(op.Path)
	case wire.OpCheck:
		switch {
		case n == nil:
			return fail(zk.ErrNoNode)
		case !mayPlainly(r.Who, n.acl, zk.PermRead):
			return fail(zk.ErrNoAuth)
		case stale:
			return fail(zk.ErrBadVersion)
		}
	}
	return res
}

func (t *twin) remove(path string, zxid int64) {
	n, parent := t.nodes[path], t.nodes[zk.Parent(path)]
	delete(t.nodes, path)
	parent.attrs.pzxid = zxid
	t.fire(zk.NodeDeleted, path, zxid, n.acl)
	t.fire(zk.NodeChildrenChanged, zk.Parent(path), zxid, parent.acl)
}

func (t *twin) setACL(r *Request, q *wire.SetACLRequest) (zk.Stat, zk.Code) {
	if t.closed[r.Session] {
		return zk.Stat{}, zk.ErrSessionExpired
	}
	if zk.ValidatePath(q.Path) != nil {
		return zk.Stat{}, zk.ErrBadArguments
	}
	acl, code := resolveACL(r.Who, q.ACL, new(int))
	n := t.nodes[q.Path]
	switch {
	case code != zk.OK:
		return zk.Stat{}, code
	case n == nil:
		return zk.Stat{}, zk.ErrNoNode
	case !mayPlainly(r.Who, n.acl, zk.PermAdmin):
		return zk.Stat{}, zk.ErrNoAuth
	case q.Version != -1 && q.Version != n.attrs.aversion:
		return zk.Stat{}, zk.ErrBadVersion
	}
	n.acl = acl
	n.attrs.aversion++
	return t.stat(q.Path), zk.OK
}

func (t *twin) multi(r *Request, ops []wire.MultiOp) []wire.MultiResult {
	before := map[string]*twinNode{}
	for p, n := range t.nodes {
		c := *n
		before[p] = &c
	}
	fired := len(t.effects)
	results := []wire.MultiResult{}
	failed := -1
	for i := range ops {
		res := t.do(r, &ops[i])
		results = append(results, res)
		if res.Err != zk.OK {
			failed = i
			break
		}
	}
	if failed < 0 {
		return results
	}
	t.nodes, t.effects = before, t.effects[:fired]
	for i := range failed {
		results[i] = wire.MultiResult{Op: wire.OpError}
	}
	for len(results) < len(ops) {
		results = append(results, wire.MultiResult{Op: wire.OpError, Err: zk.ErrRuntimeInconsistency})
	}
	return results
}

func (t *twin) closeSession(r *Request) {
	for _, p := range t.ephemerals(r.Session) {
		t.remove(p, r.Zxid)
	}
	t.closed[r.Session] = true
}

func (t *twin) reap(r *Request, path string) zk.Code {
	n := t.nodes[path]
	switch {
	case n == nil:
		return zk.ErrNoNode
	case len(t.children(path)) > 0:
		return zk.ErrNotEmpty
	case !slices.Contains(t.reapable(r.Time), path):
		return zk.ErrBadVersion
	}
	t.remove(path, r.Zxid)
	return zk.OK
}

func (t *twin) reapable(now int64) []string {
	var out []string
	for p, n := range t.nodes {
		if len(t.children(p)) > 0 {
			continue
		}
		switch o := n.attrs.owner; {
		case o == txn.OwnerContainer:
			if n.attrs.cversion > 0 {
				out = append(out, p)
			}
		case uint64(o)>>56 == 0xff:
			if now-n.attrs.mtime > o&txn.TTLMax {
				out = append(out, p)
			}
		}
	}
	slices.Sort(out)
	return out
}

// diff says how the tree differs from the twin; "" if it does not.
func (t *twin) diff(tr *Tree) string {
	super := Identities{{SchemeSuper, ""}}
	if tr.Count() != len(t.nodes) {
		return fmt.Sprintf("Count = %d, want %d", tr.Count(), len(t.nodes))
	}
	var bytes int64
	ephemerals := 0
	for _, path := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[path]
		data, stat, code := tr.Get(super, path)
		if code != zk.OK || string(data) != string(n.data) || (data == nil) != (n.data == nil) {
			return fmt.Sprintf("Get(%s) = %q, %v, want %q", path, data, code, n.data)
		}
		if want := t.stat(path); stat != want {
			return fmt.Sprintf("Get(%s) stat\n got %+v\nwant %+v", path, stat, want)
		}
		found, stat, _ := tr.Children(super, path)
		kids := slices.Sorted(found.Names())
		if want := t.children(path); !slices.Equal(kids, want) || int(stat.NumChildren) != len(want) {
			return fmt.Sprintf("Children(%s) = %q, %d of them, want %q", path, kids, stat.NumChildren, want)
		}
		if got, want := tr.NamesBytes(path), len(wire.AppendStrings(nil, kids))-4; got != want {
			return fmt.Sprintf("NamesBytes(%s) = %d, want %d", path, got, want)
		}
		if acl, _, _ := tr.ACL(super, path); !slices.Equal(acl, n.acl) {
			return fmt.Sprintf("ACL(%s) = %v, want %v", path, acl, n.acl)
		}
		if a := tr.attrs(tr.nodes.At(tr.find(path))); a != n.attrs {
			return fmt.Sprintf("%s stores\n     %+v\nwant %+v", path, a, n.attrs)
		}
		below := int32(0)
		for p := range t.nodes {
			if p != path && (path == "/" || strings.HasPrefix(p, path+"/")) {
				below++
			}
		}
		if got, _ := countBelow(tr, super, path); got != below {
			return fmt.Sprintf("countBelow(%s) = %d, want %d", path, got, below)
		}
		bytes += int64(len(n.data))
		if path != "/" {
			bytes += int64(len(path))
		}
		if isSession(n.attrs.owner) {
			ephemerals++
			if !slices.Contains(tr.Ephemerals(n.attrs.owner, ""), path) {
				return fmt.Sprintf("Ephemerals(%x) lacks %s", n.attrs.owner, path)
			}
		}
	}
	if tr.DataBytes() != bytes {
		return fmt.Sprintf("DataBytes = %d, want %d", tr.DataBytes(), bytes)
	}
	listed := 0
	for _, s := range tr.EphemeralSessions() {
		listed += len(tr.Ephemerals(s, "/"))
	}
	if tr.EphemeralCount() != ephemerals || listed != ephemerals {
		return fmt.Sprintf("EphemeralCount = %d, listed %d, want %d", tr.EphemeralCount(), listed, ephemerals)
	}
	if got, _ := tr.Digest(); got.Tree != t.digest() {
		return fmt.Sprintf("Digest = %d, want %d", got.Tree, t.digest())
	}
	return ""
}
