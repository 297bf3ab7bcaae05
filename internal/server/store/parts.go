package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A Part is a file, or the beginning of one, that a copy of a directory needs.
type Part struct {
	Path  string
	Log   bool  // a log; otherwise the snapshot
	Bytes int64 // up to the end of the last whole record
}

// Parts returns what a copy of a directory needs: the newest snapshot that is whole, and what is whole of the logs behind
// it, oldest first. It takes no lock and changes nothing. A server,
// ours or Apache ZooKeeper's, may be at work there: the parts then hold all that was written before the call, and a
// prefix of what is written during it. Servers only append to what the parts name, so the parts can be copied
// afterwards, as long as they are not purged.
//
// While a server writes, the error may be a *DamageError that is gone a moment later: the reader has then seen the end
// of a write without its beginning, or the first snapshot in the middle. An error that wraps fs.ErrNotExist says that a
// file was purged meanwhile.
func Parts(fs vfs.FS, o Options) ([]Part, error) {
	r := &recovery{fs: fs, o: &o, log: slog.New(slog.DiscardHandler), l: discard{}, live: true}
	if err := r.run(); err != nil {
		return nil, err
	}
	if r.found.Snapshot == "" {
		return nil, fmt.Errorf("%s: it holds no snapshot", o.DataDir)
	}
	f, err := fs.Open(r.found.Snapshot)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return append([]Part{{Path: r.found.Snapshot, Bytes: size}}, r.parts...), nil
}

// writtenSince reports whether a server has written a whole record since where a scan found none: the log is not damaged
// there, only read while it was written.
func (r *recovery) writtenSince(scan *logScan) (bool, error) {
	if !r.live {
		return false, nil
	}
	l, err := openLog(r.fs, scan.path)
	if l == nil {
		return false, err
	}
	defer l.close()
	if err != nil || scan.end < fileHeaderBytes {
		return false, nil // the header is not whole
	}
	l.offset = scan.end
	l.r.Reset(io.NewSectionReader(l.f, l.offset, max(0, l.size-l.offset)))
	_, err = l.next()
	bad := (*badRecord)(nil)
	if errors.As(err, &bad) || err == io.EOF {
		return false, nil
	}
	return err == nil, err
}
