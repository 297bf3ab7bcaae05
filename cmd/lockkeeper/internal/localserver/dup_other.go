//go:build !linux

package localserver

import "golang.org/x/sys/unix"

// duplicate makes to another descriptor of what from is. Children do not inherit it.
func duplicate(from, to int) error {
	if err := unix.Dup2(from, to); err != nil {
		return err
	}
	unix.CloseOnExec(to)
	return nil
}
