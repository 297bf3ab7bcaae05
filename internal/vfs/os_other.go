//go:build !linux

package vfs

import "os"

// Datasync implements File. Where there is no fdatasync, the full sync does what is promised.
func (f osFile) Datasync() error { return f.Sync() }

// sameAsNamed reports whether the file is the one that has its name now.
func (f osFile) sameAsNamed() (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(mine, named), err
}

func (f osFile) preallocate(size int64) error { return f.Truncate(size) }
