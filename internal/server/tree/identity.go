package tree

import (
	"net/netip"
	"slices"
)

// Identity is what a connection has shown under one scheme.
type Identity struct{ Scheme, ID string }

// The schemes of identities. An identity of SchemeSuper may do anything: the scheme cannot stand in an
// ACL. SchemeAuth stands in requests only, for all identities under which the caller has
// authenticated.
const (
	SchemeWorld  = "world"
	SchemeAuth   = "auth"
	SchemeDigest = "digest"
	SchemeIP     = "ip"
	SchemeX509   = "x509"
	SchemeSuper  = "super"
)

// Identities is everything a connection is known by. It is a value: With returns another, so that
// one may be read while its connection is getting the next.
type Identities []Identity

// With returns ids and id; ids itself if id is among them.
func (ids Identities) With(id Identity) Identities {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(slices.Clip(ids), id)
}

// Super reports whether ids may do anything.
func (ids Identities) Super() bool {
	return slices.ContainsFunc(ids, func(id Identity) bool { return id.Scheme == SchemeSuper })
}

func parseNetwork(s string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix, true
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), true
}
