package tree

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// ACLEntriesMax bounds an access control list, because each entry is parsed and looked up.
const ACLEntriesMax = 1024

// expansionMax is how many bytes the identities in place of "auth" may have, in all lists of a request together. No log
// holds a transaction with more. A list of a few bytes would else become one of many megabytes before it is refused.
const expansionMax = 2 << 20

// resolveACL turns the list of a request into the one to keep: without repetitions, and with the
// caller's own identities in place of "auth", as often as that is there. Their bytes are added to expanded. It is
// ErrInvalidACL if nothing is left of it, an entry is invalid, or it becomes too long. The result may be the argument.
func resolveACL(who Identities, acl []zk.ACL, expanded *int) ([]zk.ACL, zk.Code) {
	if len(acl) == 0 {
		return nil, zk.ErrInvalidACL
	}
	plain := true // nothing to replace
	repeated := repetitions(acl)
	for i, a := range acl {
		if !validEntry(a) {
			return nil, zk.ErrInvalidACL
		}
		if a.Scheme == SchemeAuth || repeated(i) {
			plain = false
		}
	}
	if plain {
		return acl, zk.OK
	}
	var out []zk.ACL
	for i, a := range acl {
		switch {
		case repeated(i):
		case a.Scheme != SchemeAuth:
			out = append(out, a)
		default:
			before := len(out)
			for _, id := range who {
				if id.isAuthenticated() {
					*expanded += len(id.Scheme) + len(id.ID)
					out = append(out, zk.ACL{Perms: a.Perms, Scheme: id.Scheme, ID: id.ID})
				}
			}
			if len(out) == before {
				return nil, zk.ErrInvalidACL
			}
		}
		if len(out) > ACLEntriesMax || *expanded > expansionMax {
			return nil, zk.ErrInvalidACL
		}
	}
	return out, zk.OK
}

// repetitions returns a function that reports whether the entry at i stands in acl before i, too.
func repetitions(acl []zk.ACL) func(i int) bool {
	if len(acl) <= shortList {
		return func(i int) bool { return slices.Contains(acl[:i], acl[i]) }
	}
	first := make(map[zk.ACL]int, len(acl))
	for i, a := range acl {
		if _, ok := first[a]; !ok {
			first[a] = i
		}
	}
	return func(i int) bool { return first[acl[i]] < i }
}

// repeats reports whether an entry stands in acl twice.
func repeats(acl []zk.ACL) bool {
	repeated := repetitions(acl)
	for i := range acl {
		if repeated(i) {
			return true
		}
	}
	return false
}

// isAuthenticated reports whether an "auth" entry means id: an address is no proof of identity, and
// super cannot stand in a list.
func (id Identity) isAuthenticated() bool {
	return id.Scheme != SchemeIP && id.Scheme != SchemeSuper && id.Scheme != SchemeWorld
}

func validEntry(a zk.ACL) bool {
	switch a.Scheme {
	case SchemeAuth:
		return true
	case SchemeWorld:
		return a.ID == "anyone"
	case SchemeDigest:
		_, hash, _ := strings.Cut(strings.TrimRight(a.ID, ":"), ":") // Java leaves out empty parts at the end
		return hash != "" && !strings.Contains(hash, ":")
	case SchemeIP:
		_, ok := parseNetwork(a.ID)
		return ok
	case SchemeX509:
		return strings.Contains(a.ID, "=") // a distinguished name
	}
	return false
}

// maskHashes returns acl without the hashes of digest identities.
func maskHashes(acl []zk.ACL) []zk.ACL {
	out := slices.Clone(acl)
	for i := range out {
		if out[i].Scheme == SchemeDigest {
			if user, _, ok := strings.Cut(out[i].ID, ":"); ok {
				out[i].ID = user + ":x"
			}
		}
	}
	return out
}
