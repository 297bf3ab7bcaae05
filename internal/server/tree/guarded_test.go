package tree

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestASecureServerGuardsTheRootAndWhatIsBelowZookeeper(t *testing.T) {
	super := Identities{{Scheme: SchemeSuper}}
	create := wire.MultiOp{Op: wire.OpCreate, ACL: zk.OpenACL()}
	set := wire.MultiOp{Op: wire.OpSetData, Version: -1}
	remove := wire.MultiOp{Op: wire.OpDelete, Version: -1}
	check := wire.MultiOp{Op: wire.OpCheck, Version: -1}
	setACL := wire.MultiOp{Op: wire.OpSetACL, ACL: only(zk.PermRead), Version: -1}
	for _, c := range []struct {
		op      wire.MultiOp
		path    string
		guarded bool
	}{
		{setACL, "/", true},
		{set, "/", true},
		{check, "/", false},
		{create, "/new", false},
		{setACL, "/zookeeper", true},
		{set, "/zookeeper", true},
		{check, "/zookeeper/quota", false},
		{create, "/zookeeper/new", true},
		{create, "/zookeeper/quota/app", true},
		{set, "/zookeeper/quota/old", true},
		{setACL, "/zookeeper/quota", true},
		{remove, "/zookeeper/quota/old", true},
		{create, "/zookeepers", false},
		{setACL, "/zookeeper-app", false},
		{remove, "/zookeeper-app", false},
		{remove, "/leaf", false},
		{remove, "/bobs", true},
		{remove, "/open/bobs", false}, // its parent's list says so
		{set, "/open", false},
		{setACL, "/open", false},
	} {
		for _, secure := range []bool{false, true} {
			for name, who := range map[string]Identities{"anonymous": nil, "super": super} {
				s := newSite(t, Options{Secure: secure})
				s.who = super
				for _, path := range []string{"/open", "/bobs", "/open/bobs", "/leaf", "/zookeeper-app", "/zookeeper/quota/old"} {
					s.create(path, zk.Persistent)
				}
				for _, path := range []string{"/bobs", "/open/bobs"} {
					s.setACL(path, []zk.ACL{{Perms: zk.PermAll, Scheme: SchemeDigest, ID: "bob:hash"}})
				}
				s.who = who
				want := zk.OK
				if secure && c.guarded && who == nil {
					want = zk.ErrNoAuth
				}
				op := c.op
				op.Path = c.path
				var code zk.Code
				switch r := s.req(); op.Op {
				case wire.OpSetACL:
					code = s.apply(s.d.SetACL(r, &wire.SetACLRequest{Path: c.path, ACL: op.ACL, Version: -1}))
				case wire.OpCheck:
					if tx := s.d.Multi(r, []wire.MultiOp{op}); tx.Subs[0].Type == wire.OpError {
						code = tx.Subs[0].Err
					}
				default:
					code = s.apply(s.d.Op(r, &op))
				}
				if code != want {
					t.Errorf("secure %t: %v %s by %s: %v, want %v", secure, op.Op, c.path, name, code, want)
				}
			}
		}
	}
}
