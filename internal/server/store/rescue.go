package store

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// rescue saves the content of a log whose file another program has removed or replaced, which the file's own name no longer
// shows: it would be lost with the process, and with it what was acknowledged since the last snapshot. Where the file was
// removed, the copy has its name, and the next start finds everything. Where there is another file, the copy stands beside
// it. cause says what happened; the result says what was done, too.
func (s *Store) rescue(cause error) error {
	dir, name := filepath.Split(s.log.path)
	copied := filepath.Join(dir, "rescued."+name)
	err := s.copyLog(copied)
	if err == nil && errors.Is(cause, vfs.ErrRemoved) {
		if err = s.fs.Rename(copied, s.log.path); err == nil {
			copied = s.log.path
		}
	}
	if err == nil {
		err = s.fs.SyncDir(filepath.Clean(dir))
	}
	if err != nil {
		return fmt.Errorf("%w, and what was acknowledged since the last snapshot could not be saved: %w", cause, err)
	}
	if copied == s.log.path {
		return fmt.Errorf("%w (it was written again: find out what removes files there, and start the server again)", cause)
	}
	return fmt.Errorf("%w (what it held is in %s: move that to the place of the other file before the next start)", cause, copied)
}

// copyLog copies the records of the log to another file, durably.
func (s *Store) copyLog(path string) (err error) {
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, 1<<20)
	for at := int64(0); at < s.log.end; {
		n, err := s.log.f.ReadAt(buf[:min(int64(len(buf)), s.log.end-at)], at)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		if _, err := f.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return f.Datasync()
}
