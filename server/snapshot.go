package server

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
)

// snapshotStretch is how many znodes a snapshot copies while it keeps writers waiting.
const snapshotStretch = 256

// A snapshot rests snapshotRest times as long as it works, but never longer than snapshotRestMax at
// a time: no request waits for it, while all writes wait for the processor and the disk that it takes.
const (
	snapshotRest    = 2
	snapshotRestMax = 100 * time.Millisecond
)

// considerSnapshot starts a snapshot if one is due and none is being written. Only the
// committer calls it, between two batches: there the session table and the tree agree.
func (s *Server) considerSnapshot() {
	if s.sinceSnapshot < s.snapshotAt.txns && s.store.LogBytes() < s.snapshotAt.bytes || s.ctx.Err() != nil || !s.snapshotting.CompareAndSwap(false, true) {
		return
	}
	s.sinceSnapshot, s.snapshotAt = 0, s.nextSnapshot()
	src := s.newSource()
	src.rests = true
	s.snapshots.Go(func() {
		defer s.snapshotting.Store(false)
		s.writeSnapshot(src)
	})
}

// writeSnapshot writes a snapshot and deletes what is not needed any more. A failure is no reason
// to stop: the log has everything, it is only longer.
func (s *Server) writeSnapshot(src *source) {
	start := time.Now()
	if err := s.store.WriteSnapshot(s.ctx, src); err != nil {
		if !errors.Is(err, context.Canceled) {
			s.log.Error("no snapshot could be written; the log goes on growing", "err", err)
		}
		return
	}
	s.noteSnapshot(src.Zxid())
	s.counters.snapshots.Add(int64(time.Since(start)))
	s.log.Info("snapshot written", "zxid", zxidText(src.Zxid()), "took", time.Since(start))
	if s.opts.SnapRetain < 0 {
		return
	}
	if _, err := s.store.Purge(s.ctx, s.opts.SnapRetain); err != nil && !errors.Is(err, context.Canceled) {
		s.log.Warn("old snapshots and logs could not be deleted", "err", err)
	}
}

// noteSnapshot notes that the snapshot up to a transaction has been written.
func (s *Server) noteSnapshot(zxid int64) {
	s.lastSnapshot.Store(&savedSnapshot{zxid: zxid, written: time.Now()})
}

// A source gives a snapshot its content, a stretch at a time, while the server goes on.
type source struct {
	s        *Server
	cursor   *tree.Cursor
	sessions []txn.SessionEntry
	rests    bool      // others are being served meanwhile
	since    time.Time // when the last rest ended
}

// newSource is for the committer, between two batches.
func (s *Server) newSource() *source {
	s.state.Lock()
	defer s.state.Unlock()
	s.sessions.Lock()
	defer s.sessions.Unlock()
	src := &source{s: s, cursor: s.tree.Snapshot()}
	for id, timeout := range s.sessions.table.All() {
		src.sessions = append(src.sessions, txn.SessionEntry{ID: id, Timeout: int32(timeout.Milliseconds())})
	}
	return src
}

func (c *source) Zxid() int64                  { return c.cursor.Zxid() }
func (c *source) Sessions() []txn.SessionEntry { return c.sessions }
func (c *source) ACLs() []txn.ACLEntry         { return c.cursor.ACLs() }

func (c *source) Next(buf []txn.Node) ([]txn.Node, error) {
	c.rest()
	c.s.state.RLock()
	defer c.s.state.RUnlock()
	return c.cursor.Next(buf, snapshotStretch), nil
}

// rest leaves the machine to others for a while, after each stretch.
func (c *source) rest() {
	if !c.rests {
		return
	}
	if worked := time.Since(c.since); !c.since.IsZero() && worked > 0 {
		select {
		case <-time.After(min(snapshotRest*worked, snapshotRestMax)):
		case <-c.s.ctx.Done():
		}
	}
	c.since = time.Now()
}

func (c *source) Digest() *store.SnapshotDigest {
	c.s.state.RLock()
	defer c.s.state.RUnlock()
	d, ok := c.s.tree.Digest()
	if !ok {
		return nil
	}
	return &store.SnapshotDigest{Zxid: c.s.tree.LastZxid(), Digest: d}
}
