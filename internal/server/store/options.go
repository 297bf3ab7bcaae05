package store

import (
	"log/slog"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
)

// Options say where a Store lives and how careful it is.
type Options struct {
	DataDir string // snapshots are in its folder version-2
	LogDir  string // logs are in its folder version-2; "" is DataDir

	// PreAllocBytes is the step by which log files grow ahead of what is written; 0 is
	// PreAllocBytesDefault.
	PreAllocBytes int64

	// LogBytesMax is the length from which on the next Append begins a new log; 0 is no limit.
	LogBytesMax int64

	// SyncDisabled makes Sync return at once. A power failure then loses acknowledged
	// transactions; a killed process does not.
	SyncDisabled bool

	// TrustEmpty accepts logs without any snapshot, as ZooKeeper 3.4 left them.
	TrustEmpty bool

	// Logger hears of torn tails that were cut and of snapshots that were passed over; nil is silence.
	Logger *slog.Logger
}

// PreAllocBytesDefault is the step by which log files grow: preAllocSize of ZooKeeper.
const PreAllocBytesDefault = 64 << 20

// A Loader receives what a Store has kept. Every value is the Loader's to keep. An error from
// Session, ACL, Node or EndSnapshot makes the Store try an older snapshot; one from Apply ends Open.
type Loader interface {
	// Reset begins an attempt: whatever was received before is void.
	Reset()
	// Session, ACL and Node are called in this order, parents before their children.
	Session(txn.SessionEntry) error
	ACL(txn.ACLEntry) error
	Node(txn.Node) error
	// EndSnapshot says that the snapshot was complete and undamaged. In an empty directory it
	// follows Reset at once, with a zero zxid. digest is nil if the snapshot has none.
	EndSnapshot(zxid int64, digest *SnapshotDigest) error
	// Apply is called for each transaction after the snapshot, in the order of zxids. A snapshot
	// that ZooKeeper wrote may contain some of them already.
	Apply(t *txn.Txn, digest *txn.Digest) error
}

// A SnapshotDigest is the sum over the whole tree as it was after transaction Zxid.
type SnapshotDigest struct {
	Zxid int64
	txn.Digest
}

// A Source gives the content of a snapshot. The server goes on meanwhile: what it
// gives is the state after transaction Zxid, or after a later one that is in the log by then.
type Source interface {
	Zxid() int64
	Sessions() []txn.SessionEntry
	// ACLs returns the table of all lists that nodes refer to.
	ACLs() []txn.ACLEntry
	// Next appends the next nodes to buf, parents before their children and the root first. It
	// appends nothing when there are no more.
	Next(buf []txn.Node) ([]txn.Node, error)
	// Digest is asked after the last node; nil leaves it out of the file.
	Digest() *SnapshotDigest
}

// Recovery says what Open found.
type Recovery struct {
	Fresh        bool   // there was nothing, neither snapshot nor log
	Snapshot     string // path of the snapshot that was loaded; "" if there was none: write one before the first Append
	SnapshotZxid int64
	Zxid         int64 // of the last transaction
	Txns         int   // transactions replayed
	CutBytes     int64 // length of the torn tail that was cut from the newest log
}
