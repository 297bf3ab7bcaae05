// Package vfs is the only door to the disk: whatever has to survive a crash goes through FS, and
// tests open the same door on a disk that they can fill, break and cut off from power.
//
// Three promises of a disk are kept apart, because a crash tells them apart:
//
//  1. What was written is seen by every later read at once, through any File.
//  2. The content and the size of a file survive a crash once its Datasync has returned nil.
//  3. That a file exists under its name, or no longer does, survives a crash once SyncDir of its
//     directory has returned nil.
//
// A Datasync that failed promises nothing, ever: systems forget what they could not write, and the
// next Datasync may return nil all the same. A caller that needs the data stops, or writes it again.
package vfs

import (
	"errors"
	"io"
)

// What CheckName finds.
var (
	ErrRemoved  = errors.New("the file was removed by another program")
	ErrReplaced = errors.New("the file was replaced by another program")
)

// FS is a file system. Its errors name the operation and the path, and wrap the errors of
// package io/fs where those apply. Paths are the operating system's.
type FS interface {
	// Open opens a file for reading. What has the name and is no regular file is an error, here and below: to open a
	// pipe waits until a process opens its other end.
	Open(path string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(path string) (File, error)
	// Create makes an empty file, in place of what had the name, and opens it for reading and writing.
	Create(path string) (File, error)
	// CreatePrivate makes an empty file that only its owner can read, in place of what had the name, and opens it for
	// reading and writing.
	CreatePrivate(path string) (File, error)
	// Rename gives a file another name in the same directory, in place of what had that name.
	Rename(from, to string) error
	// Remove deletes a file.
	Remove(path string) error
	// ReadDir returns the names of the files in a directory, sorted, without directories.
	ReadDir(dir string) ([]string, error)
	// MkdirAll makes a directory and those above it, durably, unless they exist.
	MkdirAll(dir string) error
	// SyncDir makes the names of a directory durable.
	SyncDir(dir string) error
	// LockDir takes a directory for this holder alone, until the result is closed or the process
	// ends. It does not wait: if another process has it, the error wraps ErrLocked. It leaves no
	// file behind.
	LockDir(dir string) (io.Closer, error)
}

// A File is an open file. Reads and writes say where, so there is no position to share.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Size returns the size in bytes.
	Size() (int64, error)
	// Truncate cuts the file to size, or extends it with zeros that take no space.
	Truncate(size int64) error
	// Preallocate extends the file to size with zeros, and reserves the space for them where the
	// system can do so. It never shortens a file. Where there is not so much space, on the disk or in a quota, it does
	// nothing, and that is no error: what is going to be written may find enough.
	Preallocate(size int64) error
	// Datasync makes the content and the size durable.
	Datasync() error
	// CheckName returns an error that wraps ErrRemoved or ErrReplaced unless the file still has the name that it was
	// opened under. A file without its name can be written and synced, and is lost when it is closed.
	CheckName() error
}
