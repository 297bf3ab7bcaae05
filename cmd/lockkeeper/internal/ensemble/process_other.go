//go:build !linux

package ensemble

import "syscall"

// attributes are those of a member's process.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
