//go:build !linux

package vfs

// Datasync implements File. Where there is no fdatasync, the full sync does what is promised.
func (f osFile) Datasync() error { return f.Sync() }

func (f osFile) preallocate(size int64) error { return f.Truncate(size) }
