package server

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// load brings back what the disk has kept.
func (s *Server) load() error {
	if s.opts.NoSync {
		s.log.Warn("transactions are not synced to disk (forceSync=no): a power failure loses what was acknowledged, and locks may have two holders")
	}
	l := &loader{digests: !s.opts.NoDigests}
	var err error
	s.store, err = store.Open(s.opts.FS, store.Options{
		DataDir: s.opts.DataDir, LogDir: s.opts.LogDir, PreAllocBytes: s.opts.PreAllocBytes,
		LogBytesMax: s.opts.LogBytesMax, SyncDisabled: s.opts.NoSync, TrustEmpty: s.opts.TrustEmpty, Logger: s.log,
	}, l)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	found := s.store.Recovery()
	s.tree, s.lastPlaced = l.tree, found.Zxid
	for id, timeout := range l.sessions {
		// The disk remembers what was granted first. A client that came back to a longer minimum since has that.
		granted := max(time.Duration(timeout)*time.Millisecond, s.opts.MinSessionTimeout)
		s.sessions.table.Add(id, granted, session.NoOwner, 0)
	}
	orphans := s.tree.DropOrphans(func(id int64) bool { _, ok := l.sessions[id]; return ok })
	s.tree.Recount()
	s.draft = tree.NewDraft(s.tree, s.opts.treeOptions())
	s.snapshotAt = s.nextSnapshot()
	s.sinceSnapshot = found.Txns
	s.log.Info("recovered", "dir", s.opts.DataDir, "zxid", zxidText(found.Zxid), "znodes", s.tree.Count(),
		"sessions", len(l.sessions), "replayed", found.Txns, "orphans", len(orphans))
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

// A loader builds tree and sessions from what the store has kept.
type loader struct {
	digests  bool
	restorer *tree.Restorer
	tree     *tree.Tree
	sessions map[int64]int32 // timeouts in milliseconds
	outcome  tree.Outcome
}

func (l *loader) Reset() {
	*l = loader{digests: l.digests, restorer: tree.NewRestorer(l.digests), sessions: make(map[int64]int32)}
}

func (l *loader) Session(e txn.SessionEntry) error {
	l.sessions[e.ID] = e.Timeout
	return nil
}

func (l *loader) ACL(e txn.ACLEntry) error { return l.restorer.AddACL(e) }

func (l *loader) Node(n txn.Node) error { return l.restorer.Add(&n) }

func (l *loader) EndSnapshot(zxid int64, _ *store.SnapshotDigest) error {
	l.tree = l.restorer.Finish(zxid)
	return nil
}

func (l *loader) Apply(t *txn.Txn, _ *txn.Digest) error {
	switch t.Type {
	case wire.OpCreateSession:
		l.sessions[t.Session] = t.Timeout
	case wire.OpCloseSession:
		delete(l.sessions, t.Session)
	}
	l.tree.Apply(t, &l.outcome)
	return nil
}
