package store

import (
	"errors"
	"fmt"
)

// Errors of Append that leave the Store as it was.
var (
	// ErrTooLarge is returned when a transaction takes more than TxnBytesMax.
	ErrTooLarge = errors.New("transaction too large for the log")
	// ErrOrder is returned when a zxid is not the one after the last, nor that of a new epoch.
	ErrOrder = errors.New("transaction out of order")
	// ErrNoSnapshot is returned when there is no snapshot yet, and a log without one would be refused at the next start.
	ErrNoSnapshot = errors.New("append before the first snapshot")
)

// TxnBytesMax is the size of the largest transaction that a log may hold: Apache ZooKeeper could
// not read a larger one.
const TxnBytesMax = 2097150

// A DamageError says that a directory holds something that cannot be read, or lacks something, so
// that going on would lose acknowledged transactions. Nothing has been changed on disk.
type DamageError struct {
	Path   string // the file
	Offset int64  // where in it; -1 if that means nothing
	What   string // what is wrong
	Advice string // what to do
	Err    error  // the error of the file system behind it; nil if there is none
}

func (e *DamageError) Unwrap() error { return e.Err }

func (e *DamageError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s: %s; %s", e.Path, e.What, e.Advice)
	}
	return fmt.Sprintf("%s: at byte %d: %s; %s", e.Path, e.Offset, e.What, e.Advice)
}

// A FailedError says that the log could not be written. It is final: after it nothing is
// acknowledged any more, because it is unknown what the disk has kept. The way out is a restart.
type FailedError struct {
	Err error // of the file system; names operation and path
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("log: %v; nothing is accepted until a restart", e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }
