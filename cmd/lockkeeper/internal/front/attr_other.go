//go:build !linux

package front

import "syscall"

// childAttr has nothing to offer: the engine alone sees to it that the child dies with the front.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
