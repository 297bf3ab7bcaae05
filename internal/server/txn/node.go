package txn

import "github.com/lockkeeper/lockkeeper/zk"

// A Node is a znode at rest: what a snapshot keeps of it, and the tree gives out to have kept.
type Node struct {
	Path  string // full; the root's is "", as in ZooKeeper's snapshots
	Data  []byte // nil is null
	ACLID int64  // into the snapshot's table of lists; OpenACLID needs no entry there

	Czxid, Mzxid, Pzxid         int64
	Ctime, Mtime                int64 // milliseconds since 1970
	Version, Cversion, Aversion int32 // Cversion is the stored counter: creates of children, not the number that clients see
	Owner                       int64 // stored encoding: 0, a session, OwnerContainer or OwnerTTL | milliseconds
}

// OpenACLID stands for the list that lets every client do anything, without an entry in the table.
const OpenACLID = -1

// Stored owners of znodes that are not a session's. Clients are shown 0 for them.
const (
	OwnerContainer = -1 << 63
	OwnerTTL       = -1 << 56 // 0xFF in the top byte, the time to live in the low 40 bits
	TTLMax         = 1<<40 - 1
)

// OwnerSession returns the session that owns an ephemeral znode with this stored owner, or 0.
func OwnerSession(owner int64) int64 {
	if owner == OwnerContainer || uint64(owner)>>56 == 0xff {
		return 0
	}
	return owner
}

// An ACLEntry is one list of the table that a snapshot's nodes refer to.
type ACLEntry struct {
	ID  int64
	ACL []zk.ACL
}

// A SessionEntry is a session as a snapshot keeps it.
type SessionEntry struct {
	ID      int64
	Timeout int32 // milliseconds, as first granted
}
