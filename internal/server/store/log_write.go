package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

const (
	// growMarginBytes is how close to the end of its file a log is written before the file grows.
	growMarginBytes = 4096

	// zeroAheadBytes is how much is filled with zeros behind a write that reaches into space not yet
	// written to. The writes that follow then change no metadata of the file, and their sync is
	// cheaper by a third than that of an append (BenchmarkLayout in package vfs).
	zeroAheadBytes = 256 << 10

	// checkEvery is how long a log is written at most before its name is looked at again: to look takes some percent of a
	// sync on a fast disk.
	checkEvery = 10 * time.Millisecond

	// bufferKeptBytes is the largest buffer that is kept from batch to batch.
	bufferKeptBytes = 8 << 20
)

// A Record is a transaction on its way to the log.
type Record struct {
	Txn    *txn.Txn
	Digest txn.Digest // of the tree after the transaction; not written if its Version is 0
}

// A logFile is the log that is being written.
type logFile struct {
	f        vfs.File
	path     string
	checked  time.Time // when its name was last looked at
	end      int64     // behind the last record
	size     int64     // of the file
	zeroed   int64     // up to here the file has been written to
	unsynced int64     // bytes
}

// Append writes transactions to the log, each with the zxid that follows the last or the first of
// a new epoch. They are durable, and may be acknowledged and shown, when Sync has returned nil.
//
// An error that wraps ErrTooLarge, ErrOrder or ErrNoSnapshot says that nothing was written and the
// Store is as it was. Any other is a *FailedError, and final.
func (s *Store) Append(batch []Record) error {
	if err := s.Err(); err != nil {
		return err
	}
	if len(batch) == 0 {
		return nil
	}
	if !s.hasSnapshot.Load() {
		return ErrNoSnapshot
	}
	if err := s.encode(batch); err != nil {
		return err
	}
	if s.log != nil && (s.roll.Load() || s.o.LogBytesMax > 0 && s.log.end >= s.o.LogBytesMax) {
		if err := s.finishLog(); err != nil {
			return s.fail(err)
		}
	}
	s.roll.Store(false)
	if s.log == nil {
		if err := s.beginLog(batch[0].Txn.Zxid); err != nil {
			return s.fail(err)
		}
	}
	if err := s.write(); err != nil {
		return s.fail(err)
	}
	s.last = batch[len(batch)-1].Txn.Zxid
	s.logBytes.Add(int64(len(s.buf)))
	if cap(s.buf) > bufferKeptBytes {
		s.buf = nil
	}
	return nil
}

// encode puts the records of a batch into the buffer.
func (s *Store) encode(batch []Record) error {
	b, last := s.buf[:0], s.last
	for i := range batch {
		t := batch[i].Txn
		if !follows(last, t.Zxid) {
			return fmt.Errorf("zxid 0x%x after 0x%x: %w", t.Zxid, last, ErrOrder)
		}
		last = t.Zxid
		start := len(b)
		b = appendRecord(b, &batch[i])
		if size := len(b) - start - recordHeaderBytes - 1; size > TxnBytesMax {
			return fmt.Errorf("zxid 0x%x takes %d bytes: %w", t.Zxid, size, ErrTooLarge)
		}
	}
	s.buf = b
	return nil
}

func appendRecord(b []byte, rec *Record) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHeaderBytes)...)
	b = rec.Txn.AppendTo(b)
	if rec.Digest.Version != 0 {
		b = rec.Digest.AppendTo(b)
	}
	head, payload := b[start:], b[start+recordHeaderBytes:]
	binary.BigEndian.PutUint64(head, uint64(adler32.Checksum(payload)))
	binary.BigEndian.PutUint32(head[8:], uint32(len(payload)))
	return append(b, recordEnd)
}

// write writes the records in the buffer, in one call unless there is more than may be unsynced at
// once.
func (s *Store) write() error {
	s.buf = slices.Grow(s.buf, zeroAheadBytes)
	for rest := s.buf; len(rest) > 0; {
		n := wholeRecords(rest, unsyncedBytesMax)
		if s.log.unsynced > 0 && s.log.unsynced+n > unsyncedBytesMax {
			if err := s.syncLog(); err != nil {
				return err
			}
		}
		p := rest
		if n < int64(len(rest)) {
			p = rest[:n:n]
		}
		if err := s.log.write(p, s.o.PreAllocBytes); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// wholeRecords returns the length of the first records in b that take up to limit bytes together,
// and of one at least.
func wholeRecords(b []byte, limit int64) int64 {
	if int64(len(b)) <= limit {
		return int64(len(b))
	}
	var n int64
	for {
		next := n + recordHeaderBytes + int64(binary.BigEndian.Uint32(b[n+8:])) + 1
		if n > 0 && next > limit {
			return n
		}
		n = next
		if n == int64(len(b)) {
			return n
		}
	}
}

// write writes records behind the last, and zeros behind them if they reach beyond what was
// zeroed, as far as p has room.
func (l *logFile) write(p []byte, step int64) error {
	records := int64(len(p))
	end := l.end + records
	if over := end + growMarginBytes - l.size; over > 0 {
		size := l.size + (over+step-1)/step*step
		if err := l.f.Preallocate(size); err != nil {
			return err
		}
		l.size = size
	}
	if end > l.zeroed {
		ahead := min(zeroAheadBytes, l.size-end, int64(cap(p)-len(p)))
		p = p[:records+ahead]
		clear(p[records:])
		l.zeroed = end + ahead
	}
	if _, err := l.f.WriteAt(p, l.end); err != nil {
		return err
	}
	l.end = end
	l.unsynced += records
	return nil
}

// Sync makes all that was appended durable. An error is a *FailedError, and final: whether the
// transactions since the last Sync are there is known only to the next Open.
func (s *Store) Sync() error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.log == nil {
		return nil
	}
	if s.log.unsynced == 0 {
		return nil
	}
	if err := s.syncLog(); err != nil {
		return s.fail(err)
	}
	if now := time.Now(); now.Sub(s.log.checked) >= checkEvery {
		s.log.checked = now
		if err := s.checkLogName(); err != nil {
			return s.fail(err)
		}
	}
	return nil
}

// checkLogName returns an error, and saves what is in the log, if the log's name no longer shows it: it would be lost with the process.
func (s *Store) checkLogName() error {
	err := s.log.f.CheckName()
	if err != nil {
		err = s.rescue(err)
	}
	return err
}

func (s *Store) syncLog() error {
	if s.log.unsynced > 0 && !s.o.SyncDisabled {
		if err := s.log.f.Datasync(); err != nil {
			return err
		}
	}
	s.log.unsynced = 0
	return nil
}

// beginLog makes the log whose first transaction is zxid. Its header and its name are durable before it is used. It gets its name
// when it has its header: a log without one, which a crash could leave otherwise, would keep ZooKeeper from starting.
func (s *Store) beginLog(zxid int64) error {
	_, dir := s.o.dirs()
	path := filepath.Join(dir, logName(zxid))
	if err := s.checkUnused(path); err != nil {
		return err
	}
	l := &logFile{path: path, end: fileHeaderBytes, size: fileHeaderBytes + s.o.PreAllocBytes, zeroed: fileHeaderBytes}
	temp := filepath.Join(dir, logTempName(zxid))
	err := s.makeLog(temp, l.size)
	if err == nil {
		err = s.fs.Rename(temp, path)
	}
	if err != nil {
		s.fs.Remove(temp)
		return err
	}
	l.f, err = s.fs.OpenWrite(path)
	if err != nil {
		return err
	}
	if err = s.syncDir(dir); err != nil {
		l.f.Close()
		s.fs.Remove(path)
		return err
	}
	s.log = l
	return nil
}

// makeLog makes a durable log of that size without a record.
func (s *Store) makeLog(path string, size int64) error {
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(logHeader, 0)
	if err == nil {
		err = f.Preallocate(size)
	}
	if err == nil && !s.o.SyncDisabled {
		err = f.Datasync()
	}
	return errors.Join(err, f.Close())
}

func (s *Store) syncDir(dir string) error {
	if s.o.SyncDisabled {
		return nil
	}
	return s.fs.SyncDir(dir)
}

// checkUnused returns an error unless a log is missing or holds no whole record, as after a crash
// in its first write.
func (s *Store) checkUnused(path string) error {
	scan, err := scanLog(s.fs, path, func(int64, []byte) error { return nil })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case scan.txns > 0 || scan.bad != nil && !scan.torn:
		return &DamageError{
			Path: path, Offset: -1,
			What:   "a log that is about to be begun is there already, and not empty",
			Advice: "move it away",
		}
	}
	return nil
}

// finishLog syncs the log, gives unused space back and closes it. Nothing may have been written for long, so its name is looked at.
func (s *Store) finishLog() error {
	l := s.log
	err := s.syncLog()
	if err == nil {
		err = s.checkLogName()
	}
	s.log = nil
	if err == nil {
		l.f.Truncate(l.end) // if this fails, zeros are left that do no harm
	}
	return errors.Join(err, l.f.Close())
}
