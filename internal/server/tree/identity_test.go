package tree

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestMay(t *testing.T) {
	entry := func(perms zk.Perm, scheme, id string) []zk.ACL {
		return []zk.ACL{{Perms: perms, Scheme: scheme, ID: id}}
	}
	ip := func(a string) Identities { return Identities{{SchemeIP, a}} }
	for _, c := range []struct {
		who  Identities
		acl  []zk.ACL
		perm zk.Perm
		want bool
	}{
		{nil, nil, zk.PermWrite, true},
		{nil, []zk.ACL{}, zk.PermWrite, true},
		{nil, zk.ReadOnlyACL(), zk.PermRead, true},
		{nil, zk.ReadOnlyACL(), zk.PermWrite, false},
		{nil, zk.ReadOnlyACL(), zk.PermRead | zk.PermAdmin, true}, // any of them will do
		{nil, entry(31, SchemeWorld, "nobody"), zk.PermRead, false},
		{bob, entry(31, SchemeDigest, "bob:hash"), zk.PermRead, true},
		{bob, entry(31, SchemeDigest, "bob:other"), zk.PermRead, false},
		{bob, entry(31, SchemeX509, "bob:hash"), zk.PermRead, false},
		{Identities{{SchemeX509, "CN=a,O=b"}}, entry(1, SchemeX509, "CN=a,O=b"), zk.PermRead, true},
		{Identities{{SchemeX509, "CN=a, O=b"}}, entry(1, SchemeX509, "CN=a,O=b"), zk.PermRead, false},
		{Identities{{"sasl", "u"}}, entry(1, "sasl", "u"), zk.PermRead, true},
		{Identities{{SchemeSuper, ""}}, entry(0, SchemeWorld, "anyone"), zk.PermAdmin, true},
		{ip("10.1.2.3"), entry(1, SchemeIP, "10.1.2.3"), zk.PermRead, true},
		{ip("10.1.2.3"), entry(1, SchemeIP, "10.1.2.4"), zk.PermRead, false},
		{ip("10.1.2.3"), entry(1, SchemeIP, "10.1.0.0/16"), zk.PermRead, true},
		{ip("10.1.2.3"), entry(1, SchemeIP, "10.1.2.0/31"), zk.PermRead, false},
		{ip("10.1.2.3"), entry(1, SchemeIP, "0.0.0.0/0"), zk.PermRead, true},
		{ip("10.1.2.3"), entry(1, SchemeIP, "10.1.2.3/32"), zk.PermRead, true},
		{ip("10.1.2.3"), entry(1, SchemeIP, "010.001.002.003"), zk.PermRead, true},
		{ip("10.1.2.3"), entry(1, SchemeIP, "10.01.0.0/016"), zk.PermRead, true},
		{ip("8.1.2.3"), entry(1, SchemeIP, "010.1.2.3"), zk.PermRead, false},
		{ip("::ffff:10.1.2.3"), entry(1, SchemeIP, "10.1.2.3"), zk.PermRead, true},
		{ip("fe80::1%eth0"), entry(1, SchemeIP, "fe80::/10"), zk.PermRead, true},
		{ip("::1"), entry(1, SchemeIP, "127.0.0.1"), zk.PermRead, false},
		{ip("junk"), entry(1, SchemeIP, "0.0.0.0/0"), zk.PermRead, false},
	} {
		if got := c.who.May(newAccessList(c.acl), c.perm); got != c.want {
			t.Errorf("%v.May(%v, %d) = %v, want %v", c.who, c.acl, c.perm, got, c.want)
		}
	}
}

func TestWith(t *testing.T) {
	a := Identities{}.With(Identity{SchemeIP, "1.2.3.4"})
	b := a.With(Identity{SchemeDigest, "b:1"})
	c := a.With(Identity{SchemeDigest, "c:1"})
	if b[1].ID != "b:1" || c[1].ID != "c:1" || len(a) != 1 {
		t.Errorf("With changed what it was given: %v %v %v", a, b, c)
	}
	if len(b.With(Identity{SchemeDigest, "b:1"})) != 2 {
		t.Error("an identity counts twice")
	}
}

func TestResolveACL(t *testing.T) {
	all := func(scheme, id string) zk.ACL { return zk.ACL{Perms: zk.PermAll, Scheme: scheme, ID: id} }
	read := zk.ACL{Perms: zk.PermRead, Scheme: SchemeWorld, ID: "anyone"}
	who := Identities{{SchemeIP, "10.0.0.1"}, {SchemeSuper, ""}, {SchemeDigest, "bob:hash"}, {SchemeX509, "CN=b"}}
	for _, c := range []struct {
		name string
		who  Identities
		in   []zk.ACL
		want []zk.ACL // nil is ErrInvalidACL
	}{
		{"null", who, nil, nil},
		{"empty", who, []zk.ACL{}, nil},
		{"world", who, []zk.ACL{read}, []zk.ACL{read}},
		{"world with another id", who, []zk.ACL{all(SchemeWorld, "any")}, nil},
		{"repeated", who, []zk.ACL{read, all(SchemeDigest, "a:b"), read}, []zk.ACL{read, all(SchemeDigest, "a:b")}},
		{"auth", who, []zk.ACL{read, all(SchemeAuth, "ignored")}, []zk.ACL{read, all(SchemeDigest, "bob:hash"), all(SchemeX509, "CN=b")}},
		{"auth twice, as ZooKeeper keeps it", who[:3], []zk.ACL{all(SchemeAuth, ""), all(SchemeAuth, "x")}, []zk.ACL{all(SchemeDigest, "bob:hash"), all(SchemeDigest, "bob:hash")}},
		{"auth without credentials", who[:2], []zk.ACL{read, all(SchemeAuth, "")}, nil},
		{"super", who, []zk.ACL{all(SchemeSuper, "")}, nil},
		{"unknown scheme", who, []zk.ACL{read, all("sasl", "x")}, nil},
		{"digest", who, []zk.ACL{all(SchemeDigest, "a:b")}, []zk.ACL{all(SchemeDigest, "a:b")}},
		{"digest without hash", who, []zk.ACL{all(SchemeDigest, "a:")}, nil},
		{"digest without colon", who, []zk.ACL{all(SchemeDigest, "a")}, nil},
		{"digest with colons at the end", who, []zk.ACL{all(SchemeDigest, "a:b::")}, []zk.ACL{all(SchemeDigest, "a:b::")}},
		{"digest with two colons", who, []zk.ACL{all(SchemeDigest, "a:b:c")}, nil},
		{"ip", who, []zk.ACL{all(SchemeIP, "10.0.0.0/8")}, []zk.ACL{all(SchemeIP, "10.0.0.0/8")}},
		{"ip with too many bits", who, []zk.ACL{all(SchemeIP, "10.0.0.0/33")}, nil},
		{"ip with zeros in front", who, []zk.ACL{all(SchemeIP, "010.0.0.00/08")}, []zk.ACL{all(SchemeIP, "010.0.0.00/08")}},
		{"ip with a number too large", who, []zk.ACL{all(SchemeIP, "010.0.0.256")}, nil},
		{"ip with zeros in front and too many bits", who, []zk.ACL{all(SchemeIP, "010.0.0.0/033")}, nil},
		{"ip of another zone", who, []zk.ACL{all(SchemeIP, "fe80::1%eth0")}, nil},
		{"ip junk", who, []zk.ACL{all(SchemeIP, "10.0.0")}, nil},
		{"ipv6", who, []zk.ACL{all(SchemeIP, "fe80::/10")}, []zk.ACL{all(SchemeIP, "fe80::/10")}},
		{"x509", who, []zk.ACL{all(SchemeX509, "CN=x")}, []zk.ACL{all(SchemeX509, "CN=x")}},
		{"x509 junk", who, []zk.ACL{all(SchemeX509, "x")}, nil},
		{"no or unknown permissions", who, []zk.ACL{{Perms: 0, Scheme: SchemeWorld, ID: "anyone"}, {Perms: 64, Scheme: SchemeWorld, ID: "anyone"}},
			[]zk.ACL{{Perms: 0, Scheme: SchemeWorld, ID: "anyone"}, {Perms: 64, Scheme: SchemeWorld, ID: "anyone"}}},
	} {
		got, code := resolveACL(c.who, c.in, new(int))
		if !slices.Equal(got, c.want) || (code == zk.OK) != (c.want != nil) || code != zk.OK && code != zk.ErrInvalidACL {
			t.Errorf("%s: %v, %v, want %v", c.name, got, code, c.want)
		}
	}
}

// A list of "auth" entries may not become one of many megabytes, nor may all lists of a multi, and a list that was refused
// is not remembered.
func TestExpansionIsLimited(t *testing.T) {
	var short, long Identities
	for i := range 62 {
		short = short.With(Identity{SchemeDigest, fmt.Sprintf("%d:h", i)})
		long = long.With(Identity{SchemeDigest, fmt.Sprintf("%d:%s", i, strings.Repeat("h", 1000))})
	}
	auth := func(n int, perms zk.Perm) []zk.ACL {
		acl := make([]zk.ACL, n)
		for i := range acl {
			acl[i] = zk.ACL{Perms: perms, Scheme: SchemeAuth, ID: fmt.Sprint(i)}
		}
		return acl
	}
	more := func(acl []zk.ACL, total int) []zk.ACL {
		for i := len(short) * len(acl); i < total; i++ {
			acl = append(acl, zk.ACL{Perms: 1, Scheme: SchemeIP, ID: fmt.Sprintf("10.0.%d.%d", i/256, i%256)})
		}
		return acl
	}
	multi := func(ops int) (acls [][]zk.ACL) {
		for i := range ops {
			acls = append(acls, auth(1, zk.Perm(i)))
		}
		return acls
	}
	for _, c := range []struct {
		name string
		who  Identities
		acls [][]zk.ACL
		want zk.Code
	}{
		{"as many as there may be", short, [][]zk.ACL{more(auth(5, 1), ACLEntriesMax)}, zk.OK},
		{"one too many", short, [][]zk.ACL{more(auth(5, 1), ACLEntriesMax+1)}, zk.ErrInvalidACL},
		{"too many of auth alone", short, [][]zk.ACL{auth(ACLEntriesMax/len(short)+1, 2)}, zk.ErrInvalidACL},
		{"long ones", long, [][]zk.ACL{auth(ACLEntriesMax/len(long), 4)}, zk.OK},
		{"one longer than all others", Identities{{SchemeDigest, "a:" + strings.Repeat("h", 60000)}}, [][]zk.ACL{auth(100, 8)}, zk.ErrInvalidACL},
		{"a multi", long, multi(expansionMax / 62 / 1100), zk.OK},
		{"a multi with too much", long, multi(expansionMax/62/1000 + 1), zk.ErrInvalidACL},
	} {
		s := newSite(t, Options{})
		s.who = c.who
		var ops []wire.MultiOp
		for i, acl := range c.acls {
			op := createOp(fmt.Sprint("/", i), zk.Persistent)
			op.ACL = acl
			ops = append(ops, op)
		}
		tx := s.d.Multi(s.req(), ops)
		code := zk.OK
		if tx.Failed() {
			code = tx.Subs[len(tx.Subs)-1].Err
		}
		if code != c.want {
			t.Errorf("%s: %v, want %v", c.name, code, c.want)
		}
		if got := s.tree.lists.recentBytes; got > expansionMax {
			t.Errorf("%s: %d bytes of lists are remembered", c.name, got)
		}
	}
}

// What is remembered of lists is bounded in bytes.
func TestRememberedListsAreFew(t *testing.T) {
	s := newSite(t, Options{})
	l := &s.tree.lists
	for i := range 100 {
		l.parse([]zk.ACL{{Perms: zk.PermAll, Scheme: SchemeX509, ID: fmt.Sprintf("CN=%d%s", i, strings.Repeat("x", i*5000))}})
		bytes := 0
		for key := range l.recent {
			bytes += len(key)
		}
		if bytes > recentBytesMax || bytes != l.recentBytes || len(l.recent) > recentMax {
			t.Fatalf("%d lists of %d bytes, %d as counted", len(l.recent), bytes, l.recentBytes)
		}
	}
}

func TestACLIsMasked(t *testing.T) {
	s := newSite(t, Options{})
	s.who = bob
	s.create("/n", zk.Persistent)
	acl := []zk.ACL{{Perms: zk.PermAll, Scheme: SchemeDigest, ID: "bob:hash"}, {Perms: zk.PermRead, Scheme: SchemeWorld, ID: "anyone"}}
	s.setACL("/n", acl)
	if got, _, _ := s.tree.ACL(bob, "/n"); !slices.Equal(got, acl) {
		t.Errorf("to bob: %v", got)
	}
	got, stat, code := s.tree.ACL(nil, "/n")
	if code != zk.OK || got[0].ID != "bob:x" || got[1] != acl[1] || stat.Aversion != 1 {
		t.Errorf("to others: %v, %+v, %v", got, stat, code)
	}
	if again, _, _ := s.tree.ACL(bob, "/n"); again[0].ID != "bob:hash" {
		t.Error("masking changed the tree")
	}
}
