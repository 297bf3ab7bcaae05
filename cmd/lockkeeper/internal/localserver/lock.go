package localserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a taken file lock is tried again.
const lockPoll = 5 * time.Millisecond

// lockFile takes the lock on a file, which it makes if need be, and waits for it until ctx ends. The
// lock goes with the file that is returned, or with the process.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, context.Cause(ctx))
		}
	}
}

// take takes the lock of these places. A keeper that is just ending may have to let go of it first.
func (p Places) take(ctx context.Context) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errTaken)
	defer cancel()
	lock, err := lockFile(ctx, p.lock())
	if errors.Is(err, errTaken) {
		a, _ := p.read()
		err = fmt.Errorf("%s is in use by another keeper (process %d on host %s, socket %s)", p.State, a.Pid, a.Host, a.Socket)
	}
	return lock, err
}

// isOurs reports whether the lock that we have is still that of these places: they may have been removed, and made
// anew by another keeper.
func (p Places) isOurs(lock *os.File) bool {
	had, err := lock.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(p.lock())
	return err == nil && os.SameFile(now, had)
}
