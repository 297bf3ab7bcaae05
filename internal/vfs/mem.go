package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// An Op is a kind of operation, by which faults are chosen.
type Op string

// The operations that can be made to fail: all but Close and Size.
const (
	OpOpen        Op = "open" // Open and OpenWrite
	OpCreate      Op = "create"
	OpRename      Op = "rename"
	OpRemove      Op = "remove"
	OpReadDir     Op = "readdir"
	OpMkdir       Op = "mkdir"
	OpSyncDir     Op = "syncdir"
	OpLock        Op = "lock"
	OpRead        Op = "read"
	OpWrite       Op = "write"
	OpTruncate    Op = "truncate"
	OpPreallocate Op = "preallocate"
	OpDatasync    Op = "datasync"
)

// ErrPowerLost is for a Fault to return from some operation on: the machine has stopped. Unlike after any
// other error, what a Datasync did not get to may still have reached the disk.
var ErrPowerLost = errors.New("power lost")

// A Fault decides whether an operation fails: a result other than nil is its error, and it is not
// done. nth counts the operations of the file system from 1. It is called with the file system
// locked and must not use it.
type Fault func(op Op, path string, nth int64) error

// Mem is a file system in memory that knows what a crash would leave of it. It is for tests, needs
// no goroutine and no clock, and may be used by several goroutines. A Datasync that fails forgets
// what it should have written, as Linux does.
type Mem struct {
	mu struct {
		sync.Mutex
		dirs     map[string]*memDir
		locked   map[string]bool
		ops      int64
		fault    Fault
		capacity int64 // bytes of all files together; 0 is no limit
	}
}

// NewMem returns an empty file system. Its only directories are "/" and ".".
func NewMem() *Mem {
	m := &Mem{}
	m.mu.dirs = map[string]*memDir{"/": newMemDir(), ".": newMemDir()}
	m.mu.locked = map[string]bool{}
	return m
}

// SetFault makes f decide over all operations from now on; nil lets all succeed.
func (m *Mem) SetFault(f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.fault = f
}

// SetCapacity limits the bytes of all files together; 0 is no limit. A write that does not fit
// is done as far as it does, and fails with ENOSPC.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.capacity = bytes
}

// Ops returns how many operations there have been.
func (m *Mem) Ops() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.ops
}

// begin locks the file system, counts an operation and lets the fault decide. The caller unlocks,
// whatever the result.
func (m *Mem) begin(op Op, path string) error {
	m.mu.Lock()
	m.mu.ops++
	if m.mu.fault == nil {
		return nil
	}
	return pathError(op, path, m.mu.fault(op, path, m.mu.ops))
}

func pathError(op Op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: string(op), Path: path, Err: err}
}

// dirLocked returns the directory that a path is in, and the path's last element.
func (m *Mem) dirLocked(path string) (*memDir, string, error) {
	d := m.mu.dirs[filepath.Dir(path)]
	if d == nil {
		return nil, "", fs.ErrNotExist
	}
	return d, filepath.Base(path), nil
}

// roomLocked returns how many more bytes fit, up to want.
func (m *Mem) roomLocked(want int64) int64 {
	if m.mu.capacity == 0 {
		return want
	}
	free := m.mu.capacity
	for _, d := range m.mu.dirs {
		for _, f := range d.names {
			free -= int64(len(f.now))
		}
	}
	return max(0, min(want, free))
}

// Open implements FS.
func (m *Mem) Open(path string) (File, error) { return m.open(path, false) }

// OpenWrite implements FS.
func (m *Mem) OpenWrite(path string) (File, error) { return m.open(path, true) }

func (m *Mem) open(path string, write bool) (File, error) {
	err := m.begin(OpOpen, path)
	defer m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d, name, err := m.dirLocked(path)
	if err != nil {
		return nil, pathError(OpOpen, path, err)
	}
	f := d.names[name]
	if f == nil {
		return nil, pathError(OpOpen, path, fs.ErrNotExist)
	}
	return &memFile{fs: m, node: f, path: path, write: write}, nil
}

// Create implements FS.
func (m *Mem) Create(path string) (File, error) {
	err := m.begin(OpCreate, path)
	defer m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d, name, err := m.dirLocked(path)
	if err != nil {
		return nil, pathError(OpCreate, path, err)
	}
	f := d.names[name]
	if f == nil {
		f = &memNode{dirty: map[int]bool{}}
		d.change(nameChange{name, f})
	}
	f.resize(0)
	return &memFile{fs: m, node: f, path: path, write: true}, nil
}

// CreatePrivate implements FS. A disk in memory has no other users.
func (m *Mem) CreatePrivate(path string) (File, error) { return m.Create(path) }

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	err := m.begin(OpRename, from)
	defer m.mu.Unlock()
	if err != nil {
		return err
	}
	d, name, err := m.dirLocked(from)
	switch {
	case err != nil:
		return pathError(OpRename, from, err)
	case d.names[name] == nil:
		return pathError(OpRename, from, fs.ErrNotExist)
	case filepath.Dir(to) != filepath.Dir(from):
		return pathError(OpRename, to, syscall.EXDEV)
	}
	d.change(nameChange{filepath.Base(to), d.names[name]}, nameChange{name, nil})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(path string) error {
	err := m.begin(OpRemove, path)
	defer m.mu.Unlock()
	if err != nil {
		return err
	}
	d, name, err := m.dirLocked(path)
	if err == nil && d.names[name] == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return pathError(OpRemove, path, err)
	}
	d.change(nameChange{name, nil})
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(dir string) ([]string, error) {
	err := m.begin(OpReadDir, dir)
	defer m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d := m.mu.dirs[filepath.Clean(dir)]
	if d == nil {
		return nil, pathError(OpReadDir, dir, fs.ErrNotExist)
	}
	return slices.Sorted(maps.Keys(d.names)), nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	err := m.begin(OpMkdir, dir)
	defer m.mu.Unlock()
	if err != nil {
		return err
	}
	for dir = filepath.Clean(dir); m.mu.dirs[dir] == nil; dir = filepath.Dir(dir) {
		m.mu.dirs[dir] = newMemDir()
	}
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	err := m.begin(OpSyncDir, dir)
	defer m.mu.Unlock()
	if err != nil {
		return err
	}
	d := m.mu.dirs[filepath.Clean(dir)]
	if d == nil {
		return pathError(OpSyncDir, dir, fs.ErrNotExist)
	}
	d.durable, d.pending = maps.Clone(d.names), nil
	return nil
}

// LockDir implements FS.
func (m *Mem) LockDir(dir string) (io.Closer, error) {
	err := m.begin(OpLock, dir)
	defer m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	clean := filepath.Clean(dir)
	switch {
	case m.mu.dirs[clean] == nil:
		return nil, pathError(OpLock, dir, fs.ErrNotExist)
	case m.mu.locked[clean]:
		return nil, pathError(OpLock, dir, ErrLocked)
	}
	m.mu.locked[clean] = true
	return &memLock{fs: m, dir: clean}, nil
}

type memLock struct {
	fs  *Mem
	dir string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.mu.locked, l.dir)
	return nil
}
