package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
)

// Purge deletes what is older than the newest keep snapshots that are whole, and the logs that none
// of those needs. A snapshot that cannot be read does not count: those that this Store has neither written nor
// read before are read to the end first. keep is 1 at least. It returns the paths of what it deleted, also beside an
// error.
func (s *Store) Purge(ctx context.Context, keep int) (removed []string, err error) {
	if err := s.takeUpkeep(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.upkeep }()
	if err := s.Err(); err != nil {
		return nil, err // a log that failed may need what is older
	}
	snapshots, logs, err := s.o.list(s.fs)
	if err != nil {
		return nil, err
	}
	oldest, err := s.oldestKept(ctx, snapshots, max(keep, 1))
	if err != nil || oldest < 0 {
		return nil, err
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
		delete(s.whole, f.path)
		removed = append(removed, f.path)
	}
	return removed, nil
}

// oldestKept returns the zxid of the keep-newest snapshot that is whole, or −1 if there are not so many.
func (s *Store) oldestKept(ctx context.Context, snapshots []file, keep int) (int64, error) {
	for _, f := range slices.Backward(snapshots) {
		if !s.whole[f.path] {
			err := readSnapshot(s.fs, f, discardUntil{ctx: ctx})
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			if err != nil {
				continue
			}
			s.whole[f.path] = true
		}
		keep--
		if keep == 0 {
			return f.zxid, nil
		}
	}
	return -1, nil
}

// discardUntil is a Loader that forgets what it is given, and wants no more when ctx has ended.
type discardUntil struct {
	discard
	ctx context.Context
}

func (d discardUntil) Node(txn.Node) error { return d.ctx.Err() }

// discard is a Loader that forgets what it is given.
type discard struct{}

func (discard) Reset()                                   {}
func (discard) Session(txn.SessionEntry) error           { return nil }
func (discard) ACL(txn.ACLEntry) error                   { return nil }
func (discard) Node(txn.Node) error                      { return nil }
func (discard) EndSnapshot(int64, *SnapshotDigest) error { return nil }
func (discard) Apply(*txn.Txn, *txn.Digest) error        { return nil }
