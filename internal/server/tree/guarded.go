package tree

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// isGuarded reports whether a secure server leaves the use of a permission on a znode to super, whatever the znode's list
// says: changes of the root itself, and all changes below /zookeeper. Clients can still read both, and create below the root.
func isGuarded(path string, perm zk.Perm) bool {
	const reserved = "/zookeeper"
	switch rest, below := strings.CutPrefix(path, reserved); {
	case path == "/":
		return perm == zk.PermWrite || perm == zk.PermAdmin
	case below && (rest == "" || rest[0] == '/'):
		return perm != zk.PermRead
	}
	return false
}
