package zk

import (
	"crypto/sha1"
	"encoding/base64"
	"strings"
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

// An ACL entry grants permissions to whoever is known by an identity.
type ACL struct {
	Perms  Perm
	Scheme string // "world", "digest", "ip", "auth", "x509", "sasl"
	ID     string // what the scheme makes of it; "anyone" for world
}

// OpenACL returns an ACL that lets anybody do anything.
func OpenACL() []ACL { return []ACL{{PermAll, "world", "anyone"}} }

// ReadOnlyACL returns an ACL that lets anybody read.
func ReadOnlyACL() []ACL { return []ACL{{PermRead, "world", "anyone"}} }

// CreatorACL returns an ACL that grants everything to the identities under which the creating
// session has authenticated. The server puts those in place of the "auth" entry.
func CreatorACL() []ACL { return []ACL{{PermAll, "auth", ""}} }

// DigestACL grants perms to whoever authenticates with the digest scheme as user with password.
func DigestACL(perms Perm, user, password string) []ACL {
	return []ACL{{perms, "digest", DigestID(user + ":" + password)}}
}

// DigestID is the identity that the digest scheme makes of the credential "user:password":
// the user and the base64 of the credential's SHA-1.
func DigestID(credential string) string {
	user, _, _ := strings.Cut(credential, ":")
	sum := sha1.Sum([]byte(credential))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
