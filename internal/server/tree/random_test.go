package tree

import (
	"math/rand/v2"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A gen makes random requests that often meet: few names, few sessions, versions near the truth.
type gen struct {
	*rand.Rand
	zxid, now int64
}

func newGen(seed uint64) *gen { return &gen{rand.New(rand.NewPCG(seed, 1)), 0, 1000} }

// A step is one random request; exactly one of its parts is set.
type step struct {
	req     Request
	op      *wire.MultiOp
	multi   []wire.MultiOp
	setACL  *wire.SetACLRequest
	reap    string
	open    bool
	goodbye bool
}

func (g *gen) path() string {
	if g.IntN(30) == 0 {
		odd := []string{"", "x", "/", "//", "/a/", "/./a", "/a//b", "x/y", "/a\x01", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}
		return odd[g.IntN(len(odd))]
	}
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString("/" + string(rune('a'+g.IntN(3))))
	}
	if g.IntN(12) == 0 {
		b.WriteString([]string{"0000000000", "0000000001", "/0000000000"}[g.IntN(3)])
	}
	return b.String()
}

func (g *gen) data() []byte {
	switch g.IntN(4) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	return []byte(strings.Repeat("d", g.IntN(9)) + string(rune('0'+g.IntN(10))))
}

func (g *gen) who() Identities {
	var ids Identities
	ids = ids.With(Identity{SchemeIP, "10.0.0." + string(rune('1'+g.IntN(3)))})
	if g.IntN(2) == 0 {
		ids = ids.With(Identity{SchemeDigest, "bob:hash"})
	}
	if g.IntN(10) == 0 {
		ids = ids.With(Identity{SchemeSuper, ""})
	}
	return ids
}

func (g *gen) acl() []zk.ACL {
	switch g.IntN(14) {
	case 0:
		return nil
	case 1:
		return zk.CreatorACL()
	case 2:
		return []zk.ACL{{Perms: zk.PermAll, Scheme: SchemeDigest, ID: "bob:hash"}, {Perms: zk.PermRead, Scheme: SchemeWorld, ID: "anyone"}}
	case 3:
		return []zk.ACL{{Perms: zk.PermAll, Scheme: SchemeIP, ID: "10.0.0.2/31"}, {Perms: zk.PermAll, Scheme: SchemeIP, ID: "10.0.0.2/31"}}
	case 4:
		return []zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}}
	case 5:
		return []zk.ACL{{Perms: zk.Perm(g.IntN(32)), Scheme: SchemeWorld, ID: "anyone"}}
	}
	return zk.OpenACL()
}

func (g *gen) version() int32 {
	if g.IntN(2) == 0 {
		return -1
	}
	return int32(g.IntN(4)) - 1
}

func (g *gen) op() wire.MultiOp {
	o := wire.MultiOp{Path: g.path(), Version: g.version()}
	switch g.IntN(10) {
	case 0, 1, 2, 3, 4:
		kinds := []wire.Op{wire.OpCreate, wire.OpCreate2, wire.OpCreate, wire.OpCreateContainer, wire.OpCreateTTL}
		o.Op = kinds[g.IntN(len(kinds))]
		o.Data, o.ACL, o.Version = g.data(), g.acl(), 0
		o.Mode = zk.Mode(g.IntN(5))
		if o.Op == wire.OpCreateTTL {
			o.Mode, o.TTL = zk.Mode(5+g.IntN(2)), int64(g.IntN(60))
		}
		if g.IntN(60) == 0 {
			o.Mode = zk.Mode(g.IntN(7))
		}
	case 5, 6, 7:
		o.Op = wire.OpDelete
	case 8:
		o.Op, o.Data = wire.OpSetData, g.data()
	case 9:
		o.Op, o.Data = wire.OpSetData, g.data()
	}
	return o
}

func (g *gen) step() step {
	g.zxid++
	g.now += int64(g.IntN(5))
	s := step{req: Request{Session: int64(1 + g.IntN(4)), Cxid: int32(g.zxid), Zxid: g.zxid, Time: g.now, Who: g.who()}}
	switch g.IntN(20) {
	case 0:
		s.goodbye = true
	case 1:
		s.open = true
	case 2:
		s.setACL = &wire.SetACLRequest{Path: g.path(), ACL: g.acl(), Version: g.version()}
	case 3:
		s.req.Session, s.req.Cxid = 0, 0
		for s.reap = g.path(); !hasParent(s.reap) || permanent(s.reap); s.reap = g.path() {
		}
	case 4, 5, 6, 7:
		s.multi = []wire.MultiOp{}
		for range g.IntN(5) {
			o := g.op()
			if g.IntN(4) == 0 {
				o = wire.MultiOp{Op: wire.OpCheck, Path: g.path(), Version: g.version()}
			}
			s.multi = append(s.multi, o)
		}
	default:
		o := g.op()
		s.op = &o
	}
	return s
}
