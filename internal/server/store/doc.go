// Package store keeps transactions and snapshots on disk, in the files and the format of Apache
// ZooKeeper: either server opens what the other wrote, except snapshots that it compressed with snappy.
//
// # Guarantees
//
//  1. What Sync has returned nil for is there after a killed process and after a power failure.
//  2. What Open gives to the Loader is durable by the time Open returns, so what is shown then is
//     never taken back, not even if a sync failed in the last run and its pages were forgotten.
//  3. After a write or a sync that failed, nothing is acknowledged any more (FailedError).
//  4. A directory from which acknowledged transactions may be missing is refused (DamageError), and
//     left as it is. Only what a crash explains is cut: the torn end of the newest log. Zxids may be missing
//     within a log, since Apache ZooKeeper leaves some out, but not where a snapshot held them that cannot be
//     read, and not between two logs, where a third may have been. A snapshot without any log, as a backup may be,
//     is opened with a warning. So are logs that hold a transaction more than once, if it is the same.
//  5. A snapshot appears under its name whole or not at all, and nothing older goes before that.
//  6. Two servers of ours never share a directory. Against one of ZooKeeper's there is no guard.
//
// # Files
//
// All are in the folder version-2 of the data directory; logs may have a directory of their own.
// Numbers in names are zxids in hexadecimal. Integers are big-endian.
//
//	snapshot.N  the tree and the sessions after transaction N, or somewhat later: a snapshot is
//	            written while transactions are applied, so those after N are replayed over it
//	log.N       transactions from N on; a start and a snapshot each begin a new one, with the next transaction
//	rescued.log.N  what log.N held when another program replaced it; a directory with such a file is refused until
//	            it is moved to log.N, or deleted. With .part behind, it is not whole
//
// A log:
//
//	header      "ZKLG", int32 2, int64 0
//	record …    int64 Adler-32 of the payload, int32 its length, payload, 'B'
//	zeros       up to the size to which the file was grown ahead
//
// The payload is a transaction as package txn encodes it, and mostly the digest of the tree after it.
//
// A snapshot:
//
//	header      "ZKSN", int32 2, int64 −1
//	sessions    int32 count; each int64 id, int32 timeout in milliseconds
//	ACL table   int32 count; each int64 id, a vector of ACL entries
//	nodes …     path, data, int64 ACL id, czxid, mzxid, ctime, mtime, int32 version, cversion,
//	            aversion, int64 owner, pzxid; the root's path is "", parents come first
//	"/", seal   a seal is the int64 Adler-32 of all bytes before it, and "/"
//	digest      int64 zxid, int32 2, int64 sum; seal. Since ZooKeeper 3.6, may be missing
//	last zxid   int64 zxid; seal. Since ZooKeeper 3.9, may be missing; earlier releases stop before it
//
// # Speed
//
// A log is grown in large steps and filled with zeros some way ahead, as part of a write: a sync
// behind a write into such space has no metadata to write. A batch is one write and one sync.
//
// The snapshot that every start writes is left to the caller, which can write it while it serves: the
// older one and the logs are enough to start again. Only an empty directory needs its first
// snapshot before its first log, and that one is small.
package store
