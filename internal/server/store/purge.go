package store

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// Purge deletes what is older than the newest keep snapshots that are whole, and the logs that none
// of those needs. It reads them to the end first: a snapshot that cannot be read does not count. keep
// is 1 at least. It returns the paths of what it deleted, also beside an error.
func (s *Store) Purge(keep int) (removed []string, err error) {
	s.upkeep <- struct{}{}
	defer func() { <-s.upkeep }()
	if err := s.Err(); err != nil {
		return nil, err // a log that failed may need what is older
	}
	snapshots, logs, err := s.o.list(s.fs)
	if err != nil {
		return nil, err
	}
	oldest := oldestKept(s.fs, snapshots, max(keep, 1))
	if oldest < 0 {
		return nil, nil
	}
	var doomed []file
	for _, f := range snapshots {
		if f.zxid < oldest {
			doomed = append(doomed, f)
		}
	}
	// The newest log that begins at or before the oldest kept snapshot may reach beyond it.
	first, found := slices.BinarySearchFunc(logs, oldest, func(f file, zxid int64) int {
		return cmp.Compare(f.zxid, zxid)
	})
	if !found {
		first--
	}
	doomed = append(doomed, logs[:max(first, 0)]...)
	for _, f := range doomed {
		if err := s.fs.Remove(f.path); err != nil {
			return removed, err
		}
		removed = append(removed, f.path)
	}
	return removed, nil
}

// oldestKept returns the zxid of the keep-newest snapshot that is whole, or −1 if there are not so many.
func oldestKept(fs vfs.FS, snapshots []file, keep int) int64 {
	for _, f := range slices.Backward(snapshots) {
		if readSnapshot(fs, f, discard{}) != nil {
			continue
		}
		keep--
		if keep == 0 {
			return f.zxid
		}
	}
	return -1
}

// discard is a Loader that forgets what it is given.
type discard struct{}

func (discard) Reset()                                   {}
func (discard) Session(txn.SessionEntry) error           { return nil }
func (discard) ACL(txn.ACLEntry) error                   { return nil }
func (discard) Node(txn.Node) error                      { return nil }
func (discard) EndSnapshot(int64, *SnapshotDigest) error { return nil }
func (discard) Apply(*txn.Txn, *txn.Digest) error        { return nil }
