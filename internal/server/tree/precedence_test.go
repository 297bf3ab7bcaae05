package tree

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// precedenceSite has, below /:
//
//	open        open, data version 1, child kid
//	closed      nothing allowed, child kid
//	eph         an ephemeral of session 1
//	admin       the admin permission only
//	write       the write permission only
func precedenceSite(t *testing.T, extended bool) *site {
	s := newSite(t, Options{ExtendedTypes: extended})
	for _, p := range []string{"/open", "/open/kid", "/closed", "/closed/kid", "/admin", "/write"} {
		s.create(p, zk.Persistent)
	}
	s.create("/eph", zk.Ephemeral)
	s.op(wire.MultiOp{Op: wire.OpSetData, Path: "/open", Version: -1})
	s.setACL("/closed", only(0))
	s.setACL("/admin", only(zk.PermAdmin))
	s.setACL("/write", only(zk.PermWrite))
	return s
}

func TestPrecedence(t *testing.T) {
	open := zk.OpenACL()
	bad := []zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense"}}
	create := func(path string, mode zk.Mode, acl []zk.ACL) wire.MultiOp {
		return wire.MultiOp{Op: wire.OpCreate, Path: path, Mode: mode, ACL: acl}
	}
	ttl := func(path string, mode zk.Mode, ms int64) wire.MultiOp {
		return wire.MultiOp{Op: wire.OpCreateTTL, Path: path, Mode: mode, TTL: ms, ACL: open}
	}
	container := func(path string, mode zk.Mode) wire.MultiOp {
		return wire.MultiOp{Op: wire.OpCreateContainer, Path: path, Mode: mode, ACL: open}
	}
	del := func(path string, v int32) wire.MultiOp {
		return wire.MultiOp{Op: wire.OpDelete, Path: path, Version: v}
	}
	set := func(path string, v int32) wire.MultiOp {
		return wire.MultiOp{Op: wire.OpSetData, Path: path, Version: v}
	}
	check := func(path string, v int32) wire.MultiOp {
		return wire.MultiOp{Op: wire.OpCheck, Path: path, Version: v}
	}
	for _, c := range []struct {
		name string
		op   wire.MultiOp
		want zk.Code
	}{
		{"flags before path", create("nopath", 7, nil), zk.ErrBadArguments},
		{"negative flags", create("/new", -1, open), zk.ErrBadArguments},
		{"ttl mode on plain create", create("/new", zk.PersistentTTL, open), zk.ErrBadArguments},
		{"no slash", create("foo", 0, open), zk.ErrBadArguments},
		{"no slash before ACL", create("foo", 0, bad), zk.ErrBadArguments},
		{"NUL before ACL", create("/a\x00", 0, bad), zk.ErrBadArguments},
		{"ACL before parent", create("/none/x", 0, bad), zk.ErrInvalidACL},
		{"null ACL", create("/new", 0, nil), zk.ErrInvalidACL},
		{"empty ACL", create("/new", 0, []zk.ACL{}), zk.ErrInvalidACL},
		{"auth without credentials", create("/new", 0, zk.CreatorACL()), zk.ErrInvalidACL},
		{"relative path has an unknown parent", create("foo/bar", 0, open), zk.ErrNoNode},
		{"parent missing before malformed", create("/none/", 0, open), zk.ErrNoNode},
		{"parent's permission before malformed", create("/closed/", 0, open), zk.ErrNoAuth},
		{"permission before existence", create("/closed/kid", 0, open), zk.ErrNoAuth},
		{"trailing slash", create("/open/", 0, open), zk.ErrBadArguments},
		{"trailing slash, sequential", create("/open/", zk.PersistentSequential, open), zk.OK},
		{"double slash at the root", create("//", 0, open), zk.ErrBadArguments},
		{"dots", create("/open/..", 0, open), zk.ErrBadArguments},
		{"control character", create("/open/a\x01", 0, open), zk.ErrBadArguments},
		{"the root exists", create("/", 0, open), zk.ErrNodeExists},
		{"exists", create("/open/kid", 0, open), zk.ErrNodeExists},
		{"below an ephemeral", create("/eph/x", 0, open), zk.ErrNoChildrenForEphemerals},
		{"malformed before ephemeral", create("/eph/", 0, open), zk.ErrBadArguments},
		{"flag 4 makes a plain node", create("/new", zk.Container, open), zk.OK},

		{"ttl 0", ttl("/new", zk.PersistentTTL, 0), zk.ErrBadArguments},
		{"ttl negative", ttl("/new", zk.PersistentTTL, -1), zk.ErrBadArguments},
		{"ttl too large", ttl("/new", zk.PersistentTTL, txn.TTLMax+1), zk.ErrBadArguments},
		{"ttl largest", ttl("/new", zk.PersistentTTL, txn.TTLMax), zk.OK},
		{"ttl before path", ttl("nopath", zk.PersistentTTL, 0), zk.ErrBadArguments},
		{"ttl request, plain mode", ttl("/new", zk.Persistent, -1), zk.ErrBadArguments},
		{"container", container("/new", zk.Container), zk.OK},
		{"container whatever the flags", container("/new", zk.Ephemeral), zk.OK},
		{"container with ttl flags", container("/new", zk.PersistentTTL), zk.ErrBadArguments},

		{"delete without slash", del("foo", -1), zk.ErrBadArguments},
		{"delete NUL", del("/\x00", -1), zk.ErrBadArguments},
		{"delete the root", del("/", -1), zk.ErrBadArguments},
		{"delete /zookeeper", del("/zookeeper", 9), zk.ErrBadArguments},
		{"delete config", del("/zookeeper/config", -1), zk.ErrBadArguments},
		{"delete quota", del("/zookeeper/quota", -1), zk.ErrBadArguments},
		{"delete below nothing", del("/none/x", -1), zk.ErrNoNode},
		{"delete malformed", del("/open//kid", -1), zk.ErrNoNode},
		{"delete: permission before missing", del("/closed/none", -1), zk.ErrNoAuth},
		{"delete: permission before version", del("/closed/kid", 9), zk.ErrNoAuth},
		{"delete missing", del("/open/none", -1), zk.ErrNoNode},
		{"delete: version before children", del("/open", 9), zk.ErrBadVersion},
		{"delete: version -2 is a version", del("/open/kid", -2), zk.ErrBadVersion},
		{"delete with children", del("/open", 1), zk.ErrNotEmpty},
		{"delete: own list does not count", del("/write", 0), zk.OK},

		{"set malformed", set("/open/", -1), zk.ErrBadArguments},
		{"set missing", set("/none", -1), zk.ErrNoNode},
		{"set: permission before version", set("/admin", 9), zk.ErrNoAuth},
		{"set version", set("/open", 0), zk.ErrBadVersion},
		{"set", set("/open", 1), zk.OK},
		{"set on config", set("/zookeeper/config", -1), zk.ErrNoAuth},
		{"set on the root", set("/", -1), zk.OK},

		{"check on its own", check("/open", -1), zk.ErrUnimplemented},
	} {
		s := precedenceSite(t, true)
		if got := s.op(c.op); got != c.want {
			t.Errorf("%s: %v %q = %v, want %v", c.name, c.op.Op, c.op.Path, got, c.want)
		}
		if s.tree.LastZxid() != s.zxid {
			t.Errorf("%s: took no zxid", c.name)
		}
		// In a multi the same codes come back, one level down.
		s = precedenceSite(t, true)
		r := s.req()
		if tx := s.d.Multi(r, []wire.MultiOp{c.op}); c.op.Mode.Valid() {
			s.apply(tx)
			want := c.want
			if c.op.Op == wire.OpCheck {
				want = zk.OK
			}
			if got := s.out.Multi[0].Err; got != want || s.out.Err != zk.OK {
				t.Errorf("%s in a multi: %v, %v, want %v", c.name, got, s.out.Err, want)
			}
		} else if s.apply(tx) != zk.ErrMarshalling {
			t.Errorf("%s in a multi: %v, want the whole refused", c.name, s.out.Err)
		}
	}
	s := precedenceSite(t, false)
	for _, c := range []struct {
		op   wire.MultiOp
		want zk.Code
	}{
		{ttl("/new", zk.PersistentTTL, 0), zk.ErrUnimplemented},
		{ttl("/new", zk.Persistent, 5), zk.ErrBadArguments},
		{create("nopath", zk.PersistentSequentialTTL, nil), zk.ErrUnimplemented},
	} {
		if got := s.op(c.op); got != c.want {
			t.Errorf("extended types off: %v %v = %v, want %v", c.op.Op, c.op.Mode, got, c.want)
		}
	}
}

func TestPrecedenceSetACLAndCheck(t *testing.T) {
	bad := []zk.ACL{{Perms: zk.PermAll, Scheme: SchemeSuper, ID: "x"}}
	for _, c := range []struct {
		path    string
		acl     []zk.ACL
		version int32
		want    zk.Code
	}{
		{"/none/", bad, -1, zk.ErrBadArguments},
		{"/none", bad, -1, zk.ErrInvalidACL},
		{"/none", zk.OpenACL(), -1, zk.ErrNoNode},
		{"/write", zk.OpenACL(), 9, zk.ErrNoAuth},
		{"/admin", zk.OpenACL(), 9, zk.ErrBadVersion},
		{"/admin", zk.OpenACL(), 1, zk.OK},
		{"/", zk.OpenACL(), 0, zk.OK},
	} {
		s := precedenceSite(t, false)
		r := s.req()
		if got := s.apply(s.d.SetACL(r, &wire.SetACLRequest{Path: c.path, ACL: c.acl, Version: c.version})); got != c.want {
			t.Errorf("setACL %s %v %d = %v, want %v", c.path, c.acl, c.version, got, c.want)
		}
	}
	for _, c := range []struct {
		path    string
		version int32
		want    zk.Code
	}{
		{"/open/", -1, zk.ErrBadArguments},
		{"/none", -1, zk.ErrNoNode},
		{"/write", 9, zk.ErrNoAuth},
		{"/open", 0, zk.ErrBadVersion},
		{"/open", 1, zk.OK},
	} {
		s := precedenceSite(t, false)
		r := s.req()
		tx := s.d.Multi(r, []wire.MultiOp{{Op: wire.OpCheck, Path: c.path, Version: c.version}})
		s.apply(tx)
		if s.out.Multi[0].Err != c.want {
			t.Errorf("check %s %d = %v, want %v", c.path, c.version, s.out.Multi[0].Err, c.want)
		}
		if c.want == zk.OK && tx.Subs[0].Version != 2 {
			t.Errorf("check is logged with version %d, want the one checked plus one", tx.Subs[0].Version)
		}
	}
}

func TestPrecedenceReads(t *testing.T) {
	s := precedenceSite(t, false)
	type codes struct{ exists, get, children, acl, all zk.Code }
	for path, want := range map[string]codes{
		"/open":     {},
		"/none":     {zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode},
		"/open/":    {zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode},
		"open":      {zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode},
		"//":        {zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode},
		"/a\x00":    {zk.ErrBadArguments, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode, zk.ErrNoNode},
		"/write":    {zk.ErrNoAuth, zk.ErrNoAuth, zk.ErrNoAuth, zk.ErrNoAuth, zk.ErrNoAuth},
		"/admin":    {zk.ErrNoAuth, zk.ErrNoAuth, zk.ErrNoAuth, zk.OK, zk.ErrNoAuth},
		"/open/kid": {},
	} {
		var got codes
		_, got.exists = s.tree.Exists(nil, path)
		_, _, got.get = s.tree.Get(nil, path)
		_, _, got.children = s.tree.Children(nil, path)
		_, _, got.acl = s.tree.ACL(nil, path)
		_, got.all = countBelow(s.tree, nil, path)
		if got != want {
			t.Errorf("%q: %+v, want %+v", path, got, want)
		}
	}
}
