package server

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/load"
	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
)

// load brings back what the disk has kept.
func (s *Server) load() error {
	if s.opts.NoSync {
		s.log.Warn("transactions are not synced to disk (forceSync=no): a power failure loses what was acknowledged, and locks may have two holders")
	}
	l := load.New(!s.opts.NoDigests)
	var err error
	s.store, err = store.Open(s.opts.fs, store.Options{
		DataDir: s.opts.DataDir, LogDir: s.opts.LogDir, PreAllocBytes: s.opts.PreAllocBytes,
		LogBytesMax: s.opts.LogBytesMax, SyncDisabled: s.opts.NoSync, TrustEmpty: s.opts.TrustEmpty, Logger: s.log,
	}, l)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	found := s.store.Recovery()
	s.tree, s.lastPlaced = l.Tree, found.Zxid
	for id, timeout := range l.Sessions {
		if txn.OwnerSession(id) == 0 {
			s.store.Close()
			return fmt.Errorf("server: %s has session 0x%x, of a server with myid 255: a stored owner that begins so is taken for a time to live, "+
				"so its ephemeral znodes would stay (start the old server, wait until its clients have closed their sessions, and stop it again)", s.opts.DataDir, uint64(id))
		}
		// The disk remembers what was granted first. A client that came back to a longer minimum since has that.
		granted := max(time.Duration(timeout)*time.Millisecond, s.opts.MinSessionTimeout)
		s.sessions.table.Add(id, granted, session.NoOwner, 0)
	}
	orphans := l.Finish()
	s.draft = tree.NewDraft(s.tree, s.opts.treeOptions())
	s.snapshotAt = s.nextSnapshot()
	s.sinceSnapshot = found.Txns
	s.log.Info("recovered", "dir", s.opts.DataDir, "zxid", zxidText(found.Zxid), "znodes", s.tree.Count(),
		"sessions", len(l.Sessions), "replayed", found.Txns, "orphans", len(orphans))
	// Without a snapshot the directory could not be opened again, however much the log holds. And
	// orphans go without a transaction, so the log alone would bring them back under whatever is
	// created in their place.
	if found.Snapshot == "" || len(orphans) > 0 {
		if err := s.store.WriteSnapshot(context.Background(), s.newSource()); err != nil {
			s.store.Close()
			return fmt.Errorf("server: first snapshot: %w", err)
		}
		s.sinceSnapshot = 0
		s.noteSnapshot(found.Zxid)
	}
	return nil
}

// A due is after what the next snapshot is due: random numbers, so that many servers started together
// do not write theirs together.
type due struct {
	txns  int
	bytes int64
}

func (s *Server) nextSnapshot() due {
	half := max(s.opts.SnapCount/2, 1)
	d := due{half + rand.IntN(half), math.MaxInt64}
	if s.opts.SnapBytes > 0 {
		half := max(s.opts.SnapBytes/2, 1)
		d.bytes = half + rand.Int64N(half)
	}
	return d
}
