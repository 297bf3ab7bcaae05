package store

import (
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A Store keeps transactions and snapshots on disk.
//
// Append, Sync and Close are for one goroutine at a time. WriteSnapshot and Purge may run beside
// Append and Sync; they take turns with each other.
type Store struct {
	// Fixed by Open.
	fs    vfs.FS
	o     Options
	found Recovery
	locks []io.Closer

	// Owned by the goroutine that appends.
	log  *logFile // nil: the next Append begins one
	last int64    // zxid of the last transaction
	buf  []byte   // records on their way to the log

	upkeep chan struct{}   // holds one token: WriteSnapshot or Purge is at work
	whole  map[string]bool // guarded by the token: paths of snapshots that were written here, or read to the end

	// Shared.
	hasSnapshot atomic.Bool // the directory can be opened again
	roll        atomic.Bool // the next Append begins a new log
	logBytes    atomic.Int64

	mu struct {
		sync.Mutex
		failed *FailedError
	}
}

// Open locks the directories, makes them if need be, and gives what they hold to l. Everything
// given is durable by the time it returns. A *DamageError says that something is wrong with the
// files, and that nothing was changed.
//
// If there was no snapshot, nothing can be appended before a first WriteSnapshot. Otherwise the
// snapshot that a start should write may be written while the server is at work already.
func Open(fs vfs.FS, o Options, l Loader) (_ *Store, err error) {
	if o.PreAllocBytes <= 0 {
		o.PreAllocBytes = PreAllocBytesDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{fs: fs, o: o, upkeep: make(chan struct{}, 1), whole: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unlock())
		}
	}()
	if err := s.lock(); err != nil {
		return nil, err
	}
	r := &recovery{fs: fs, o: &s.o, log: o.Logger, l: l}
	if err := r.run(); err != nil {
		return nil, err
	}
	if err := r.repair(); err != nil {
		return nil, err
	}
	s.found, s.last = r.found, r.found.Zxid
	s.logBytes.Store(r.bytes)
	if r.found.Snapshot != "" {
		s.hasSnapshot.Store(true)
		s.whole[r.found.Snapshot] = true
	}
	return s, nil
}

// lock makes the directories and takes them: the folders with the files, which two servers may reach by different paths, and those
// above, which a restore takes while it has no files in the folders yet.
func (s *Store) lock() error {
	snapshotDir, logDir := s.o.dirs()
	dirs := []string{filepath.Dir(snapshotDir), snapshotDir, filepath.Dir(logDir), logDir}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if err := s.fs.MkdirAll(dir); err != nil {
			return err
		}
		l, err := s.fs.LockDir(dir)
		if err != nil {
			return err
		}
		s.locks = append(s.locks, l)
	}
	return nil
}

func (s *Store) unlock() error {
	var errs []error
	for _, l := range s.locks {
		errs = append(errs, l.Close())
	}
	s.locks = nil
	return errors.Join(errs...)
}

// Recovery returns what Open found.
func (s *Store) Recovery() Recovery { return s.found }

// Err returns the *FailedError that ended the Store's life, or nil.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.failed == nil {
		return nil // not a *FailedError that is nil
	}
	return s.mu.failed
}

// fail ends the Store's life.
func (s *Store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.failed == nil {
		s.mu.failed = &FailedError{Err: err}
	}
	return s.mu.failed
}

// LogBytes returns how many bytes were appended since the last snapshot was begun, and replayed behind the one that was loaded.
func (s *Store) LogBytes() int64 { return s.logBytes.Load() }

// Close syncs what was appended, gives unused space back and unlocks the directories. It waits for
// WriteSnapshot and Purge to end.
func (s *Store) Close() error {
	s.upkeep <- struct{}{}
	defer func() { <-s.upkeep }()
	err := s.Err()
	switch {
	case s.log == nil:
	case err == nil:
		err = s.finishLog()
	default:
		s.log.f.Close() // whatever it says, the log has failed already
		s.log = nil
	}
	s.fail(errClosed)
	return errors.Join(err, s.unlock())
}

var errClosed = errors.New("the store is closed")
