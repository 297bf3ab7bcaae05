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

// Find is not available here.
func Find(int) (Process, error) { return Process{}, errors.ErrUnsupported }

// Lives reports whether there is a process with that number.
func Lives(p Process) bool { return syscall.Kill(p.Pid, 0) != syscall.ESRCH }

// Signal sends a signal to a process.
func Signal(p Process, sig syscall.Signal) error { return syscall.Kill(p.Pid, sig) }

// SameProgram cannot be told here.
func SameProgram(Process) bool { return false }

// Args cannot be told here.
func Args(Process) []string { return nil }

// Env cannot be told here.
func Env(Process) (vars []string, known bool) { return nil, true }
