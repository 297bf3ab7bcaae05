//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package vfs

import (
	"syscall"
	"testing"
)

// A process that is being started has copies of all descriptors until it runs its program.
func TestALockEndsAtOnceThoughAStartingProcessHasACopy(t *testing.T) {
	dir := t.TempDir()
	l, err := OS{}.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(l.(dirLock).dir.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = OS{}.LockDir(dir)
	if err != nil {
		t.Fatalf("the directory that was unlocked: %v", err)
	}
	l.Close()
}
