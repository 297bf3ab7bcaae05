package tree

import (
	"net/netip"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/lockkeeper/lockkeeper/zk"
)

// AccessList is an access control list with its entries parsed. Its entries do not change, and may be read concurrently. A nil
// AccessList grants everything, like an empty one.
//
// A check of a short list compares all entries with all identities. A long list has an index, so that a check costs one
// look-up for each identity however many entries there are, and remembers its latest verdicts.
type AccessList struct {
	entries  []zk.ACL
	networks []netip.Prefix // of the entries of scheme ip, at the same places; nil if there are none
	index    *accessIndex   // nil for a short list
	checked  bool           // a request that asked for it has passed resolveACL; for the goroutine that decides alone
}

// shortList is up to how many entries comparing is cheaper than looking up.
const shortList = 8

// accessIndex finds what a long list grants.
type accessIndex struct {
	anyone   zk.Perm
	exact    map[Identity]zk.Perm
	networks map[netip.Prefix]zk.Perm
	lengths  [2][]int // the prefix lengths among the networks, of IPv4 and of IPv6
	verdicts [verdictsKept]atomic.Pointer[verdict]
}

// verdictsKept is how many verdicts a long list remembers.
const verdictsKept = 16

// verdict is everything that a list grants some identities. Identities do not change, so the same slice has the same
// verdict. The verdict does not keep the slice alive, whose connection may have gone: the pointer leads nowhere then.
type verdict struct {
	first   weak.Pointer[Identity]
	count   int
	granted zk.Perm
}

// newAccessList parses a list. It keeps the slice.
func newAccessList(acl []zk.ACL) *AccessList {
	l := &AccessList{entries: acl}
	for i := range acl {
		if acl[i].Scheme != SchemeIP {
			continue
		}
		if l.networks == nil {
			l.networks = make([]netip.Prefix, len(acl))
		}
		l.networks[i], _ = parseNetwork(acl[i].ID)
	}
	if len(acl) > shortList {
		l.buildIndex()
	}
	return l
}

func (l *AccessList) buildIndex() {
	x := &accessIndex{exact: make(map[Identity]zk.Perm, len(l.entries)), networks: map[netip.Prefix]zk.Perm{}}
	var seen [2][129]bool
	for i, a := range l.entries {
		if a.Scheme == SchemeWorld && a.ID == "anyone" {
			x.anyone |= a.Perms
		}
		x.exact[Identity{a.Scheme, a.ID}] |= a.Perms
		if a.Scheme != SchemeIP || !l.networks[i].IsValid() {
			continue
		}
		p := l.networks[i].Masked()
		x.networks[p] |= a.Perms
		family := familyOf(p.Addr())
		if bits := p.Bits(); !seen[family][bits] {
			seen[family][bits] = true
			x.lengths[family] = append(x.lengths[family], bits)
		}
	}
	l.index = x
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// Entries returns the list as it was given. The caller must not change it.
func (l *AccessList) Entries() []zk.ACL {
	if l == nil {
		return nil
	}
	return l.entries
}

// May reports whether l grants ids one of the permissions in perm.
func (ids Identities) May(l *AccessList, perm zk.Perm) bool {
	if l == nil || len(l.entries) == 0 {
		return true
	}
	if l.index != nil {
		return l.index.grantedTo(ids)&perm != 0
	}
	for i := range l.entries {
		a := &l.entries[i]
		if a.Perms&perm == 0 {
			continue
		}
		if a.Scheme == SchemeWorld && a.ID == "anyone" {
			return true
		}
		for _, id := range ids {
			if id.Scheme == a.Scheme && (id.ID == a.ID || id.Scheme == SchemeIP && contains(l.networks[i], id.ID)) {
				return true
			}
		}
	}
	return ids.Super()
}

// contains reports whether an address lies in a network.
func contains(network netip.Prefix, address string) bool {
	addr, err := netip.ParseAddr(address)
	return err == nil && network.IsValid() && network.Contains(addr.Unmap().WithZone(""))
}

// grantedTo returns all permissions that the list grants.
func (x *accessIndex) grantedTo(ids Identities) zk.Perm {
	if len(ids) == 0 {
		return x.anyone
	}
	slot := &x.verdicts[uintptr(unsafe.Pointer(&ids[0]))/unsafe.Sizeof(ids[0])%verdictsKept]
	if v := slot.Load(); v != nil && v.first.Value() == &ids[0] && v.count == len(ids) {
		return v.granted
	}
	granted := x.decide(ids)
	slot.Store(&verdict{weak.Make(&ids[0]), len(ids), granted})
	return granted
}

func (x *accessIndex) decide(ids Identities) zk.Perm {
	if ids.Super() {
		return ^zk.Perm(0)
	}
	granted := x.anyone
	for _, id := range ids {
		granted |= x.exact[id]
		if id.Scheme != SchemeIP {
			continue
		}
		addr, err := netip.ParseAddr(id.ID)
		if err != nil {
			continue
		}
		addr = addr.Unmap().WithZone("")
		for _, bits := range x.lengths[familyOf(addr)] {
			if p, err := addr.Prefix(bits); err == nil {
				granted |= x.networks[p]
			}
		}
	}
	return granted
}
