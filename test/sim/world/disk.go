package world

import (
	"hash/fnv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A disk is a vfs.Mem whose syncs take a while, so that a crash finds writes that are under way.
type disk struct {
	*vfs.Mem
	sync time.Duration
	off  atomic.Bool // nobody is there any more to wait for it
}

func (d *disk) Create(path string) (vfs.File, error)    { return d.wrap(d.Mem.Create(path)) }
func (d *disk) Open(path string) (vfs.File, error)      { return d.wrap(d.Mem.Open(path)) }
func (d *disk) OpenWrite(path string) (vfs.File, error) { return d.wrap(d.Mem.OpenWrite(path)) }

func (d *disk) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d}, nil
}

type diskFile struct {
	vfs.File
	d *disk
}

// Datasync takes its time and is then done at once: a crash meanwhile loses what it was to write, or not.
func (f *diskFile) Datasync() error {
	if !f.d.off.Load() {
		time.Sleep(f.d.sync)
	}
	return f.File.Datasync()
}

// content is a sum over all files.
func (d *disk) content() uint64 {
	h := fnv.New64a()
	names, _ := d.Mem.ReadDir(versionDir)
	for _, name := range names {
		if !strings.HasPrefix(name, "log.") {
			continue
		}
		f, err := d.Mem.Open(versionDir + "/" + name)
		if err != nil {
			continue
		}
		size, _ := f.Size()
		b := make([]byte, size)
		f.ReadAt(b, 0)
		f.Close()
		h.Write([]byte(name))
		h.Write(b)
	}
	return h.Sum64()
}
