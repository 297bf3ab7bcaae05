package vfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// A memDir holds names twice: as programs see them, and as a crash would leave them.
type memDir struct {
	names   map[string]*memNode
	durable map[string]*memNode
	pending [][]nameChange // since the last SyncDir; each takes effect whole or not at all
}

// A nameChange gives a name to a file; a nil file takes the name away.
type nameChange struct {
	name string
	node *memNode
}

func newMemDir() *memDir {
	return &memDir{names: map[string]*memNode{}, durable: map[string]*memNode{}}
}

func (d *memDir) change(changes ...nameChange) {
	applyNames(d.names, changes)
	d.pending = append(d.pending, changes)
}

func applyNames(names map[string]*memNode, changes []nameChange) {
	for _, c := range changes {
		if c.node == nil {
			delete(names, c.name)
		} else {
			names[c.name] = c.node
		}
	}
}

// A memNode is the content of a file, twice.
type memNode struct {
	now     []byte
	durable []byte
	dirty   map[int]bool // sectors of now that the next Datasync writes
}

// resize cuts the file, or extends it with zeros.
func (n *memNode) resize(size int64) {
	old := int64(len(n.now))
	if size <= old {
		clear(n.now[size:])
		n.now = n.now[:size]
		return
	}
	n.now = append(n.now, make([]byte, size-old)...)
	n.touch(old, size)
}

// touch marks what lies between two offsets as not yet written.
func (n *memNode) touch(from, to int64) {
	for s := int(from / sectorBytes); int64(s)*sectorBytes < to; s++ {
		n.dirty[s] = true
	}
}

// sync makes the durable content that of now, in the sectors that are dirty.
func (n *memNode) sync() {
	n.durable = fit(n.durable, len(n.now))
	for s := range n.dirty {
		copySector(n.durable, n.now, s)
	}
	clear(n.dirty)
}

// fit cuts b, or extends it with zeros.
func fit(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-len(b))...)
}

// copySector copies one sector, as far as both slices have it.
func copySector(dst, src []byte, sector int) {
	from := sector * sectorBytes
	if to := min(from+sectorBytes, len(src), len(dst)); from < to {
		copy(dst[from:to], src[from:to])
	}
}

type memFile struct {
	fs     *Mem
	node   *memNode
	path   string
	write  bool
	closed bool // guarded by fs.mu
}

// begin is that of the file system, for an operation on this file; the caller unlocks.
func (f *memFile) begin(op Op, writes bool) error {
	err := f.fs.begin(op, f.path)
	switch {
	case f.closed:
		return pathError(op, f.path, fs.ErrClosed)
	case writes && !f.write:
		return pathError(op, f.path, syscall.EBADF)
	}
	return err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	err := f.begin(OpRead, false)
	defer f.fs.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError(OpRead, f.path, syscall.EINVAL)
	}
	if off >= int64(len(f.node.now)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.now[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.begin(OpWrite, true)
	defer f.fs.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError(OpWrite, f.path, syscall.EINVAL)
	}
	if end := off + int64(len(p)); end > int64(len(f.node.now)) {
		size := int64(len(f.node.now))
		room := f.fs.roomLocked(end - size)
		if room < end-size {
			err = pathError(OpWrite, f.path, syscall.ENOSPC)
			p = p[:max(0, size+room-off)]
		}
		f.node.resize(max(size, off+int64(len(p))))
	}
	copy(f.node.now[min(off, int64(len(f.node.now))):], p)
	f.node.touch(off, off+int64(len(p)))
	return len(p), err
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return pathError("close", f.path, fs.ErrClosed)
	}
	f.closed = true
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.now)), nil
}

func (f *memFile) Truncate(size int64) error {
	err := f.begin(OpTruncate, true)
	defer f.fs.mu.Unlock()
	if err == nil {
		f.node.resize(size)
	}
	return err
}

func (f *memFile) Preallocate(size int64) error {
	err := f.begin(OpPreallocate, true)
	defer f.fs.mu.Unlock()
	now := int64(len(f.node.now))
	switch {
	case err != nil || size <= now || f.fs.roomLocked(size-now) < size-now:
		return err
	}
	f.node.resize(size)
	return nil
}

func (f *memFile) Datasync() error {
	err := f.begin(OpDatasync, false)
	defer f.fs.mu.Unlock()
	switch {
	case errors.Is(err, ErrPowerLost):
		return err
	case err != nil:
		clear(f.node.dirty) // forgotten: a later Datasync does not write these sectors either
		return err
	}
	f.node.sync()
	return nil
}

// CheckName implements File. It cannot be made to fail.
func (f *memFile) CheckName() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	d, name, err := f.fs.dirLocked(f.path)
	switch {
	case err != nil || d.names[name] == nil:
		return pathError("check", f.path, ErrRemoved)
	case d.names[name] != f.node:
		return pathError("check", f.path, ErrReplaced)
	}
	return nil
}
