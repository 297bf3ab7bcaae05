package localserver

import (
	"errors"
	"os"
)

// rotateLog puts the log aside when it has become too long, and makes those of files that write to it write to a new one. A
// command that starts a keeper may have put it aside already. Files that are something else stay as they are.
func (p Places) rotateLog(files ...*os.File) error {
	var toLog []*os.File
	for _, f := range files {
		if long, err := p.writesToLongLog(f); err != nil {
			return err
		} else if long {
			toLog = append(toLog, f)
		}
	}
	if len(toLog) == 0 {
		return nil
	}
	log, err := openLog(p.Log())
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range toLog {
		errs = append(errs, replaceFile(log, f))
	}
	return errors.Join(append(errs, log.Close())...)
}

// writesToLongLog reports whether a file is the log, and that is too long, or one that was put aside.
func (p Places) writesToLongLog(f *os.File) (bool, error) {
	own, err := f.Stat()
	if err != nil {
		return false, err
	}
	if log, err := os.Lstat(p.Log()); err == nil && os.SameFile(own, log) {
		return own.Size() > logBytesMax, nil
	}
	old, err := os.Lstat(p.Log() + ".old")
	return err == nil && os.SameFile(own, old), nil
}

// replaceFile makes the descriptor of f another one of what from is.
func replaceFile(from, f *os.File) error {
	return os.NewSyscallError("dup", duplicate(int(from.Fd()), int(f.Fd())))
}
