//go:build linux

// Package ptytest gives tests a pseudo-terminal.
package ptytest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Terminal is the keyboard and the screen of a pseudo-terminal.
type Terminal struct {
	t      *testing.T
	master *os.File
	name   string

	mu     sync.Mutex
	screen bytes.Buffer  // everything written so far
	more   chan struct{} // closed and replaced when the screen changes
	eof    bool
}

// columns is how wide the screen is.
const columns = 100

// Open makes a terminal that goes away at the end of the test.
func Open(t *testing.T) *Terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err != nil {
		t.Fatal(err)
	}
	term := &Terminal{t: t, master: os.NewFile(uintptr(fd), "ptmx"), name: "/dev/pts/" + strconv.Itoa(n), more: make(chan struct{})}
	done := make(chan struct{})
	go func() { defer close(done); term.read() }()
	t.Cleanup(func() { term.master.Close(); <-done })
	return term
}

// Slave opens the side that programs see.
func (x *Terminal) Slave() *os.File {
	x.t.Helper()
	f, err := os.OpenFile(x.name, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		x.t.Fatal(err)
	}
	return f
}

func (x *Terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := x.master.Read(buf)
		x.mu.Lock()
		x.screen.Write(buf[:n])
		x.eof = err != nil
		close(x.more)
		x.more = make(chan struct{})
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Type presses keys.
func (x *Terminal) Type(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// WaitFor waits until the screen has shown text. It forgets the screen up to its end, and returns what
// stood before it.
func (x *Terminal) WaitFor(text string) (before string) {
	x.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		x.mu.Lock()
		shown, more, eof := x.screen.String(), x.more, x.eof
		if i := strings.Index(shown, text); i >= 0 {
			x.screen.Next(i + len(text))
			x.mu.Unlock()
			return shown[:i]
		}
		x.mu.Unlock()
		if eof {
			x.t.Fatalf("terminal closed before %q appeared; it shows %q", text, shown)
		}
		select {
		case <-more:
		case <-limit:
			x.t.Fatalf("no %q within 20s; the terminal shows %q", text, shown)
		}
	}
}
