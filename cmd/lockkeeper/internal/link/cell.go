package link

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const cellBytes = 8

// A Cell is a word of memory that the processes of a lock share: the latest deadline. The engine stores,
// front and guard load. It starts at the beginning of time, when nothing was held.
type Cell struct {
	file *os.File
	mem  []byte
}

// NewCell makes a cell in memory of its own.
func NewCell() (*Cell, error) {
	f, err := anonymousFile()
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	if err := f.Truncate(cellBytes); err != nil {
		f.Close()
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	c, err := OpenCell(f)
	if err == nil {
		c.Store(math.MinInt64)
	}
	return c, err
}

// OpenCell maps the cell behind an inherited descriptor.
func OpenCell(f *os.File) (*Cell, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, cellBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("shared memory: mmap: %w", err)
	}
	return &Cell{file: f, mem: mem}, nil
}

// Close gives the memory back; the cell must not be used any more.
func (c *Cell) Close() {
	unix.Munmap(c.mem)
	c.file.Close()
}

// File returns the descriptor to pass on.
func (c *Cell) File() *os.File { return c.file }

// Store sets the deadline.
func (c *Cell) Store(i Instant) { atomic.StoreInt64(c.word(), int64(i)) }

// Load returns the deadline.
func (c *Cell) Load() Instant { return Instant(atomic.LoadInt64(c.word())) }

// word is the cell as a number. A mapping begins at a page, so the alignment is right.
func (c *Cell) word() *int64 { return (*int64)(unsafe.Pointer(unsafe.SliceData(c.mem))) }
