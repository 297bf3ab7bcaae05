package link

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The words of a cell.
const (
	deadlineWord = iota
	begunWord
	awareWord
	cellWords

	cellBytes = 8 * cellWords
)

// A Cell is memory that the processes of a lock share: the latest deadline, which the engine stores and front and
// guard load; whether the guard has begun to start the child, so that the front knows after the guard's death; and whether
// the process of Open.Watched knows of the lock, so that the others know after the front's death.
// The deadline starts at the beginning of time, when nothing was held.
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
func (c *Cell) Store(i Instant) { atomic.StoreInt64(c.word(deadlineWord), int64(i)) }

// Load returns the deadline.
func (c *Cell) Load() Instant { return Instant(atomic.LoadInt64(c.word(deadlineWord))) }

// Begin notes that the child is being started.
func (c *Cell) Begin() { atomic.StoreInt64(c.word(begunWord), 1) }

// Begun reports whether the child may have been started.
func (c *Cell) Begun() bool { return atomic.LoadInt64(c.word(begunWord)) != 0 }

// SetAware notes that the process of Open.Watched knows of the lock.
func (c *Cell) SetAware() { atomic.StoreInt64(c.word(awareWord), 1) }

// Aware reports whether the process of Open.Watched may know of the lock. One that does not is left alone.
func (c *Cell) Aware() bool { return atomic.LoadInt64(c.word(awareWord)) != 0 }

// word is a word of the cell. A mapping begins at a page, so the alignment is right.
func (c *Cell) word(i int) *int64 { return (*int64)(unsafe.Pointer(&c.mem[8*i])) }
