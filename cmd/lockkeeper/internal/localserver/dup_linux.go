package localserver

import "golang.org/x/sys/unix"

// duplicate makes to another descriptor of what from is. Children do not inherit it.
func duplicate(from, to int) error { return unix.Dup3(from, to, unix.O_CLOEXEC) }
