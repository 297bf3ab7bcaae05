package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked is the cause of an error of LockDir when another process has the directory.
var ErrLocked = errors.New("in use by another server")

// What is made here is for the owner and the group: znodes may hold secrets.
const (
	dirPerm  = 0o750
	filePerm = 0o640

	privatePerm = 0o600
)

// OS is the file system of the operating system.
type OS struct{}

type osFile struct{ *os.File }

// Open implements FS.
func (OS) Open(path string) (File, error) { return openOS(path, os.O_RDONLY) }

// OpenWrite implements FS.
func (OS) OpenWrite(path string) (File, error) { return openOS(path, os.O_RDWR) }

// Create implements FS.
func (OS) Create(path string) (File, error) {
	return openOS(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// CreatePrivate implements FS.
func (OS) CreatePrivate(path string) (File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, privatePerm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

var errNotRegular = errors.New("not a regular file")

func openOS(path string, flag int) (File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	f, err := os.OpenFile(path, flag, filePerm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(path string) error { return os.Remove(path) }

// ReadDir implements FS.
func (OS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// MkdirAll implements FS.
func (o OS) MkdirAll(dir string) error {
	switch info, err := os.Stat(dir); {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := o.MkdirAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// LockDir implements FS. The lock is on the directory itself, so it leaves no file and ends with
// the process.
func (OS) LockDir(dir string) (io.Closer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := lockFile(d); err != nil {
		d.Close()
		return nil, &fs.PathError{Op: "lock", Path: dir, Err: err}
	}
	return dirLock{d}, nil
}

// dirLock is a directory that is open and locked.
type dirLock struct{ dir *os.File }

// Close unlocks the directory before it closes it. A lock belongs to all copies of a descriptor, and a process that is being
// started by another goroutine has copies until it runs its program: without the unlocking it would keep the lock for that long.
func (l dirLock) Close() error {
	return errors.Join(unlockFile(l.dir), l.dir.Close())
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// CheckName implements File.
func (f osFile) CheckName() error {
	same, err := f.sameAsNamed()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = ErrRemoved
	case err == nil && !same:
		err = ErrReplaced
	}
	return f.pathError("check", err)
}

func (f osFile) Preallocate(size int64) error {
	now, err := f.Size()
	if err != nil || size <= now {
		return err
	}
	return f.preallocate(size)
}

// pathError adds the operation and the path to an error of a system call.
func (f osFile) pathError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.Name(), Err: err}
}
