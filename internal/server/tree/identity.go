package tree

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
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

// parseNetwork reads an address or a network.
func parseNetwork(s string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix, true
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return parsePadded(s)
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), addr.Zone() == ""
}

// parsePadded reads an address or a network of IPv4 whose numbers may have zeros in front, as Java reads them: decimal.
func parsePadded(s string) (network netip.Prefix, ok bool) {
	text, size, sized := strings.Cut(s, "/")
	if !sized {
		size = "32"
	}
	bits, err := strconv.Atoi(size)
	parts := strings.SplitN(text, ".", 5)
	if err != nil || bits < 0 || bits > 32 || len(parts) != 4 {
		return netip.Prefix{}, false
	}
	var addr [4]byte
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 255 {
			return netip.Prefix{}, false
		}
		addr[i] = byte(n)
	}
	return netip.PrefixFrom(netip.AddrFrom4(addr), bits), true
}
