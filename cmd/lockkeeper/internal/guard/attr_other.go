//go:build !linux

package guard

import "syscall"

// childAttr has nothing to offer: front and engine alone see to it that the child dies with the guard.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
