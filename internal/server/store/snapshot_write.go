package store

import (
	"context"
	"errors"
	"hash"
	"hash/adler32"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

const (
	snapshotBufferBytes = 256 << 10

	// snapshotSyncBytes is how much of a snapshot is left to the system before it is synced: a
	// flood at the end would make the log's next sync wait.
	snapshotSyncBytes = 512 << 10
)

// WriteSnapshot writes a snapshot while appends go on, and makes the next Append begin a new log.
// Nothing is taken away before the new snapshot is whole and durable; one of the same zxid is
// replaced then. An error leaves the Store able to go on. It waits while another snapshot is written
// or files are purged.
func (s *Store) WriteSnapshot(ctx context.Context, src Source) error {
	if err := s.takeUpkeep(ctx); err != nil {
		return err
	}
	defer func() { <-s.upkeep }()
	if err := s.Err(); err != nil {
		return err
	}
	s.roll.Store(true)
	s.logBytes.Store(0)
	dir, _ := s.o.dirs()
	temp := filepath.Join(dir, tempName(src.Zxid()))
	if err := s.writeSnapshotFile(ctx, temp, src); err != nil {
		return err
	}
	// A source may have been ahead of what turned out to be durable.
	if err := s.Err(); err != nil {
		return errors.Join(err, s.fs.Remove(temp))
	}
	path := filepath.Join(dir, snapshotName(src.Zxid()))
	if err := s.fs.Rename(temp, path); err != nil {
		return errors.Join(err, s.fs.Remove(temp))
	}
	s.whole[path] = true
	if err := s.syncDir(dir); err != nil {
		return err
	}
	s.hasSnapshot.Store(true)
	return nil
}

// takeUpkeep takes the token of upkeep, unless ctx ends first.
func (s *Store) takeUpkeep(ctx context.Context) error {
	select {
	case s.upkeep <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writeSnapshotFile makes a whole and durable file, or none.
func (s *Store) writeSnapshotFile(ctx context.Context, path string, src Source) error {
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	w := &snapshotWriter{f: f, sum: adler32.New(), syncDisabled: s.o.SyncDisabled}
	err = w.write(ctx, src)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, s.fs.Remove(path))
	}
	return nil
}

// A snapshotWriter gathers fields and sums up what was written. The first error sticks.
type snapshotWriter struct {
	f            vfs.File
	err          error
	syncDisabled bool

	buf      []byte      // not yet written
	summed   int         // what stands before it in buf is in sum
	sum      hash.Hash32 // Adler-32
	offset   int64       // of buf in the file
	unsynced int64
}

func (w *snapshotWriter) write(ctx context.Context, src Source) error {
	w.buf = make([]byte, 0, snapshotBufferBytes)
	w.buf = wire.AppendInt32(w.buf, snapshotMagic)
	w.buf = wire.AppendInt32(w.buf, formatVersion)
	w.buf = wire.AppendInt64(w.buf, -1)
	sessions := src.Sessions()
	w.buf = wire.AppendInt32(w.buf, int32(len(sessions)))
	for _, e := range sessions {
		w.buf = wire.AppendInt32(wire.AppendInt64(w.buf, e.ID), e.Timeout)
		w.spill()
	}
	acls := src.ACLs()
	w.buf = wire.AppendInt32(w.buf, int32(len(acls)))
	for _, e := range acls {
		w.buf = wire.AppendACL(wire.AppendInt64(w.buf, e.ID), e.ACL)
		w.spill()
	}
	var nodes []txn.Node
	for w.err == nil {
		w.err = context.Cause(ctx)
		if w.err != nil {
			break
		}
		nodes, w.err = src.Next(nodes[:0])
		if len(nodes) == 0 {
			break
		}
		for i := range nodes {
			w.buf = appendNode(w.buf, &nodes[i])
			w.spill()
		}
	}
	w.buf = wire.AppendString(w.buf, endOfTree)
	w.seal()
	if d := src.Digest(); d != nil && w.err == nil {
		w.buf = wire.AppendInt64(w.buf, d.Zxid)
		w.buf = d.Digest.AppendTo(w.buf)
		w.seal()
		w.buf = wire.AppendInt64(w.buf, src.Zxid()) // since ZooKeeper 3.9; earlier releases stop before it
		w.seal()
	}
	w.flush()
	w.sync()
	return w.err
}

func appendNode(b []byte, n *txn.Node) []byte {
	b = wire.AppendString(b, n.Path)
	b = wire.AppendBuffer(b, n.Data)
	for _, v := range [...]int64{n.ACLID, n.Czxid, n.Mzxid, n.Ctime, n.Mtime} {
		b = wire.AppendInt64(b, v)
	}
	for _, v := range [...]int32{n.Version, n.Cversion, n.Aversion} {
		b = wire.AppendInt32(b, v)
	}
	return wire.AppendInt64(wire.AppendInt64(b, n.Owner), n.Pzxid)
}

func (w *snapshotWriter) sumUp() {
	w.sum.Write(w.buf[w.summed:])
	w.summed = len(w.buf)
}

// seal appends the sum of everything before it.
func (w *snapshotWriter) seal() {
	w.sumUp()
	w.buf = wire.AppendInt64(w.buf, int64(w.sum.Sum32()))
	w.buf = wire.AppendString(w.buf, endOfTree)
}

// spill writes the buffer out if it is full.
func (w *snapshotWriter) spill() {
	if len(w.buf) >= snapshotBufferBytes {
		w.flush()
		if w.unsynced >= snapshotSyncBytes {
			w.sync()
		}
	}
}

func (w *snapshotWriter) flush() {
	w.sumUp()
	if w.err == nil {
		_, w.err = w.f.WriteAt(w.buf, w.offset)
	}
	w.offset += int64(len(w.buf))
	w.unsynced += int64(len(w.buf))
	w.buf, w.summed = w.buf[:0], 0
}

func (w *snapshotWriter) sync() {
	if w.err == nil && !w.syncDisabled {
		w.err = w.f.Datasync()
	}
	w.unsynced = 0
}
