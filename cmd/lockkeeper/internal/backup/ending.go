package backup

import (
	"context"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// An endingFS is the file system, from which nothing can be read any more once its context has ended: large files take
// minutes.
type endingFS struct {
	vfs.OS
	ctx context.Context
}

// Open implements vfs.FS.
func (fs endingFS) Open(path string) (vfs.File, error) {
	f, err := fs.OS.Open(path)
	if err != nil {
		return nil, err
	}
	return endingFile{f, fs.ctx}, nil
}

type endingFile struct {
	vfs.File
	ctx context.Context
}

func (f endingFile) ReadAt(b []byte, off int64) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	return f.File.ReadAt(b, off)
}
