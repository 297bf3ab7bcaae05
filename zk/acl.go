package zk

import (
	"crypto/sha1"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// Perm is a set of permissions on a znode.
type Perm int32

// The permissions. Create and Delete are rights over the children of a znode, not over the
// znode itself.
const (
	PermRead   Perm = 1 << iota // read data and list children
	PermWrite                   // set data
	PermCreate                  // create children
	PermDelete                  // delete children
	PermAdmin                   // set the ACL
	PermAll    Perm = 1<<iota - 1
)

// An ACL entry grants permissions to clients that have an identity.
type ACL struct {
	Perms  Perm
	Scheme string // "world", "digest", "ip", "auth", "x509", "sasl"
	ID     string // what the scheme makes of it; "anyone" for world
}

// OpenACL returns an ACL that lets every client do anything.
func OpenACL() []ACL { return []ACL{{PermAll, "world", "anyone"}} }

// ReadOnlyACL returns an ACL that lets every client read.
func ReadOnlyACL() []ACL { return []ACL{{PermRead, "world", "anyone"}} }

// CreatorACL returns an ACL that grants everything to the identities under which the creating
// session has authenticated. The server puts those in place of the "auth" entry.
func CreatorACL() []ACL { return []ACL{{PermAll, "auth", ""}} }

// DigestACL grants perms to clients that authenticate with the digest scheme as user with password.
func DigestACL(perms Perm, user, password string) []ACL {
	return []ACL{{perms, "digest", DigestID(user + ":" + password)}}
}

// DigestID is the identity that the digest scheme makes of the credential "user:password":
// the user and the base64 of the credential's SHA-1. What is not UTF-8 in it is replaced before, as
// ZooKeeper does.
func DigestID(credential string) string {
	credential = asJavaReads(credential)
	user, _, _ := strings.Cut(credential, ":")
	sum := sha1.Sum([]byte(credential))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// asJavaReads puts U+FFFD in place of what is not UTF-8, once for as much as Java replaces at once.
func asJavaReads(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			n = malformed(s)
		}
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

// malformed returns how many bytes at the beginning of s, which is no UTF-8, are replaced at once: what
// could have become a character, or is a surrogate.
func malformed(s string) int {
	lead, most, low, high := s[0], 1, byte(0x80), byte(0xbf)
	switch {
	case lead >= 0xe0 && lead <= 0xef:
		most = 3
		if lead == 0xe0 {
			low = 0xa0
		}
	case lead >= 0xf0 && lead <= 0xf4:
		most = 3
		switch lead {
		case 0xf0:
			low = 0x90
		case 0xf4:
			high = 0x8f
		}
	}
	n := 1
	for n < min(most, len(s)) && low <= s[n] && s[n] <= high {
		n++
		low, high = 0x80, 0xbf
	}
	return n
}
