//go:build !linux

package proc

import (
	"errors"
	"syscall"
)

// Adopt does nothing: orphans go to the first process of the machine.
func Adopt() error { return nil }

// Rename does nothing.
func Rename(string) {}

// Table is not available here.
func Table() ([]Process, error) { return nil, errors.ErrUnsupported }

// Signal sends a signal to a process.
func Signal(p Process, sig syscall.Signal) error { return syscall.Kill(p.Pid, sig) }

// SameProgram cannot be told here.
func SameProgram(Process) bool { return false }

// Args cannot be told here.
func Args(Process) []string { return nil }

// HasEnv cannot be told here.
func HasEnv(Process, []string) bool { return false }
