// Package exit has the exit statuses that are part of the command's contract, and errors that carry
// one.
package exit

import (
	"errors"
	"fmt"
)

// The statuses follow sysexits.h where it has a fitting one, and the shells for commands that could
// not be executed. The child of run has its own status passed on.
const (
	OK            = 0
	Failure       = 1   // status: a server did not answer as it should; server: unexpected end
	Usage         = 64  // EX_USAGE: the command line, or a setting that cannot work
	Unreachable   = 69  // EX_UNAVAILABLE: no server could be reached
	NoSuchLock    = 66  // EX_NOINPUT: there is no such lock
	Internal      = 70  // EX_SOFTWARE: a process of ours died or spoke nonsense
	OS            = 71  // EX_OSERR: no process, no pipe, no permission on a directory of ours
	CannotCreate  = 73  // EX_CANTCREAT: the status file cannot be opened
	Lost          = 74  // EX_IOERR: the lock was lost while the command ran
	Busy          = 75  // EX_TEMPFAIL: another process holds the lock, or the wait is over
	OwnLock       = 76  // EX_PROTOCOL: the run that started this one holds the lock
	NotPermitted  = 77  // EX_NOPERM: the servers refuse us
	Config        = 78  // EX_CONFIG: a configuration file that cannot be used
	NotExecutable = 126 // as in a shell
	NotFound      = 127 // as in a shell
	SignalBase    = 128 // plus the number of the signal
)

// An Error is an error that knows with which status the process ends.
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without the status.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error as fmt.Errorf makes an error.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Err: fmt.Errorf(format, args...)}
}

// StatusOf returns the status that err carries, and otherwise for an error that carries none.
func StatusOf(err error, otherwise int) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return otherwise
}
