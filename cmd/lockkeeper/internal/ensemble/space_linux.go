package ensemble

import (
	"fmt"
	"syscall"
)

// spaceMargin is what has to be left on a disk beside the copies: members write a snapshot and a log soon after their start.
const spaceMargin = 64 << 20

// statfs tells what is free. Tests replace it.
var statfs = syscall.Statfs

// enoughSpace refuses a disk on which n bytes have no room.
func enoughSpace(dir string, n int64) error {
	var s syscall.Statfs_t
	if err := statfs(dir, &s); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if free := int64(s.Bavail) * s.Bsize; free < n+spaceMargin {
		return fmt.Errorf("%s: the copies take %d MiB, and %d MiB are free (%d MiB have to remain)", dir, n>>20, free>>20, int64(spaceMargin)>>20)
	}
	return nil
}
