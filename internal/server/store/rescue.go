package store

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// The content of a log that another program has removed or replaced is saved as rescued.log.N, and has a name of its own until it
// is whole: a half copy in the place of the log would look like the end of a crash.
const (
	rescuedPrefix = "rescued."
	partSuffix    = ".part"
)

// rescue saves the content of a log whose file another program has removed or replaced, which the file's own name no longer
// shows: it would be lost with the process, and with it what was acknowledged since the last snapshot. Where the file was
// removed, the copy has its name, and the next start finds everything. Where there is another file, the copy stands beside
// it, and a start refuses the directory (checkRescued): so there is none of that name yet. cause says what happened; the result
// says what was done, too.
func (s *Store) rescue(cause error) error {
	dir, name := filepath.Split(s.log.path)
	beside := filepath.Join(dir, rescuedPrefix+name)
	copied := beside
	if errors.Is(cause, vfs.ErrRemoved) {
		copied = s.log.path
	}
	err := s.copyLog(beside + partSuffix)
	if err == nil {
		err = s.fs.Rename(beside+partSuffix, copied)
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
	return fmt.Errorf("%w (what it held is in %s: move that to the place of the other file, and start the server again)", cause, copied)
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

// checkRescued returns a *DamageError if a directory of logs has a rescued one: a server that starts without it, maybe by
// itself, would lack what was acknowledged.
func checkRescued(fs vfs.FS, dir string) error {
	names, err := fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		log, rescued := strings.CutPrefix(name, rescuedPrefix)
		log, part := strings.CutSuffix(log, partSuffix)
		if !rescued || !strings.HasPrefix(log, logPrefix) {
			continue
		}
		what := "this is what a log held that another program removed or replaced"
		if part {
			what += ", as far as it was saved"
		}
		return &DamageError{
			Path: filepath.Join(dir, name), Offset: -1, What: what,
			Advice: fmt.Sprintf("move it to %s, in place of what is there, or delete it to go on without what it holds", filepath.Join(dir, log)),
		}
	}
	return nil
}
