package tree

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"weak"

	"github.com/lockkeeper/lockkeeper/zk"
)

// mayPlainly is May in its slow and obvious form: every entry is parsed and compared with every identity.
func mayPlainly(ids Identities, acl []zk.ACL, perm zk.Perm) bool {
	for _, a := range acl {
		if a.Perms&perm == 0 {
			continue
		}
		if a.Scheme == SchemeWorld && a.ID == "anyone" {
			return true
		}
		for _, id := range ids {
			if id.Scheme != a.Scheme {
				continue
			}
			if id.ID == a.ID {
				return true
			}
			network, ok := parseNetwork(a.ID)
			addr, err := netip.ParseAddr(id.ID)
			if id.Scheme == SchemeIP && ok && err == nil && network.Contains(addr.Unmap().WithZone("")) {
				return true
			}
		}
	}
	return len(acl) == 0 || ids.Super()
}

// A list with an index gives the same verdicts as one without, also when it remembers them.
func TestLongListsDecideAsShortOnesDo(t *testing.T) {
	seeds(t, 200, func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		identity := func() Identity {
			switch rnd.IntN(5) {
			case 0:
				return Identity{SchemeDigest, fmt.Sprintf("u%d:h", rnd.IntN(6))}
			case 1:
				return Identity{SchemeX509, fmt.Sprintf("CN=%d", rnd.IntN(6))}
			case 2:
				return Identity{SchemeIP, fmt.Sprintf("10.0.%d.%d", rnd.IntN(3), rnd.IntN(3))}
			case 3:
				return Identity{SchemeIP, []string{"fe80::1%eth0", "::ffff:10.0.1.1", "::1", "junk"}[rnd.IntN(4)]}
			}
			return Identity{SchemeWorld, "anyone"}
		}
		acl := make([]zk.ACL, rnd.IntN(3*shortList))
		for i := range acl {
			id := identity()
			if id.Scheme == SchemeIP && rnd.IntN(2) == 0 {
				id.ID = []string{"10.0.1.0/24", "10.0.0.0/8", "0.0.0.0/0", "fe80::/10", "::ffff:10.0.0.0/104", "10.0.1.1/33"}[rnd.IntN(6)]
			}
			if id.Scheme == SchemeWorld && rnd.IntN(4) > 0 {
				id.ID = "nobody"
			}
			acl[i] = zk.ACL{Perms: zk.Perm(rnd.IntN(32)), Scheme: id.Scheme, ID: id.ID}
		}
		list := newAccessList(slices.Clone(acl))
		var all []Identities
		for range 3 * verdictsKept {
			var who Identities
			for range rnd.IntN(4) {
				who = who.With(identity())
			}
			if rnd.IntN(20) == 0 {
				who = who.With(Identity{Scheme: SchemeSuper})
			}
			all = append(all, who)
		}
		for range 2 {
			for _, who := range all {
				perm := zk.Perm(1 + rnd.IntN(31))
				if got, want := who.May(list, perm), mayPlainly(who, acl, perm); got != want {
					t.Fatalf("%v.May(%v, %d) = %v, want %v", who, acl, perm, got, want)
				}
			}
		}
	})
}

// A verdict is remembered, and readers may ask at the same time.
func TestVerdictsAreRemembered(t *testing.T) {
	acl := make([]zk.ACL, 1024)
	for i := range acl {
		acl[i] = zk.ACL{Perms: zk.PermRead, Scheme: SchemeIP, ID: fmt.Sprintf("10.0.%d.%d", i/256, i%256)}
	}
	list := newAccessList(acl)
	who := Identities{{SchemeIP, "10.0.3.255"}}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 1000 {
				if !who.May(list, zk.PermRead) || who.May(list, zk.PermWrite) {
					t.Error("wrong verdict")
					return
				}
			}
		})
	}
	readers.Wait()
	if n := testing.AllocsPerRun(100, func() { who.May(list, zk.PermRead) }); n != 0 {
		t.Errorf("a verdict that is remembered takes %v allocations, want none", n)
	}
}

// A list keeps no identities of connections that have gone.
func TestVerdictsKeepNoIdentities(t *testing.T) {
	list := newAccessList(slices.Repeat([]zk.ACL{{Perms: zk.PermRead, Scheme: SchemeDigest, ID: "bob:hash"}}, shortList+1))
	var gone weak.Pointer[Identity]
	var asked sync.WaitGroup
	asked.Go(func() {
		who := Identities{{SchemeDigest, "bob:hash"}}
		for range 2 {
			if !who.May(list, zk.PermRead) || who.May(list, zk.PermWrite) {
				t.Error("wrong verdict")
			}
		}
		gone = weak.Make(&who[0])
	})
	asked.Wait()
	runtime.GC()
	if gone.Value() != nil {
		t.Error("the identities are there still")
	}
	runtime.KeepAlive(list)
}

// Two "auth" entries may leave a list that repeats itself. A client that asks for that list by its entries gets it without
// the repetition, as from Apache ZooKeeper, also after a request for the two "auth" entries.
func TestARepetitionIsTakenOutOfAKnownList(t *testing.T) {
	own := zk.ACL{Perms: zk.PermAll, Scheme: SchemeDigest, ID: "bob:hash"}
	s := newSite(t, Options{})
	bob := &Request{Who: Identities{{SchemeDigest, own.ID}}}
	list, code := s.d.resolveACL(bob, []zk.ACL{own, {Perms: zk.PermAll, Scheme: SchemeAuth}})
	if code != zk.OK || len(list.Entries()) != 2 {
		t.Fatalf("the list with \"auth\": %v, %v", list.Entries(), code)
	}
	list, code = s.d.resolveACL(bob, []zk.ACL{own, own})
	if code != zk.OK || len(list.Entries()) != 1 {
		t.Errorf("the list that repeats itself: %v, %v", list.Entries(), code)
	}
}

// A list that came with a snapshot is checked like any other when a client asks for it.
func TestAListOfAnotherServerIsChecked(t *testing.T) {
	foreign := []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "u"}}
	s := newSite(t, Options{})
	s.tree.lists.intern(foreign)
	for range 2 {
		if _, code := s.d.resolveACL(&Request{}, foreign); code != zk.ErrInvalidACL {
			t.Errorf("a list of an unknown scheme: %v, want %v", code, zk.ErrInvalidACL)
		}
	}
	own := zk.CreatorACL()
	for _, who := range []Identities{{{SchemeDigest, "a:h"}}, {{SchemeDigest, "b:h"}}} {
		list, code := s.d.resolveACL(&Request{Who: who}, own)
		if code != zk.OK || list.Entries()[0].ID != who[0].ID {
			t.Errorf("the creator's list for %v: %v, %v", who, list.Entries(), code)
		}
	}
}
