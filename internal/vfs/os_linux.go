package vfs

import "syscall"

// Datasync implements File. fdatasync leaves out what a reader does not need, such as the time of
// the last change; the size is not left out.
func (f osFile) Datasync() error {
	return f.pathError("fdatasync", retry(func() error { return syscall.Fdatasync(int(f.Fd())) }))
}

// sameAsNamed reports whether the file is the one that has its name now.
func (f osFile) sameAsNamed() (bool, error) {
	var mine, named syscall.Stat_t
	if err := retry(func() error { return syscall.Fstat(int(f.Fd()), &mine) }); err != nil {
		return false, err
	}
	err := retry(func() error { return syscall.Stat(f.Name(), &named) })
	return mine.Dev == named.Dev && mine.Ino == named.Ino, err
}

func (f osFile) preallocate(size int64) error {
	before, err := f.Size()
	if err != nil {
		return err
	}
	err = retry(func() error { return syscall.Fallocate(int(f.Fd()), 0, 0, size) })
	if err == syscall.EOPNOTSUPP || err == syscall.ENOSYS {
		return f.Truncate(size) // a system that cannot reserve; zeros will do
	}
	if err == syscall.ENOSPC || err == syscall.EDQUOT {
		return f.Truncate(before) // ext4 keeps what it could reserve: all that was free
	}
	return f.pathError("fallocate", err)
}

// retry makes a system call until no signal has interrupted it.
func retry(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}
