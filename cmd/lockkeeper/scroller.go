package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// A scroller shows a text at a terminal, again and again, as much of it as there is room for. The first line stays, and keys move
// through the others.
type scroller struct {
	out  *os.File
	keys chan string // that were pressed; nil if keys cannot be read
	text string
	top  int // how many rows are above the first one that is shown
	page int // how many rows were shown last
}

// newScroller returns a scroller on a terminal. Until ctx ends, standard input gives its keys, if that is a terminal too and this process
// is in its foreground. done waits for the end of the reading, and puts the terminal back into its mode.
func newScroller(ctx context.Context, out *os.File) (s *scroller, done func()) {
	s = &scroller{out: out}
	in := int(os.Stdin.Fd())
	mode, err := unix.IoctlGetTermios(in, getTermios)
	if err != nil || !inForeground(in) {
		return s, func() {}
	}
	byKey := *mode
	byKey.Lflag &^= unix.ICANON | unix.ECHO
	byKey.Cc[unix.VMIN], byKey.Cc[unix.VTIME] = 1, 0
	stopped, stop, err := os.Pipe()
	if err != nil {
		return s, func() {}
	}
	s.keys = make(chan string)
	unix.IoctlSetTermios(in, setTermios, &byKey)
	ctx, cancel := context.WithCancel(ctx)
	ends := context.AfterFunc(ctx, func() { stop.Close() })
	var wg sync.WaitGroup
	wg.Go(func() { s.readKeys(ctx, in, int(stopped.Fd())) })
	wg.Go(func() { suspend(ctx, in, mode, &byKey) })
	return s, func() {
		if ends() {
			stop.Close()
		}
		cancel()
		wg.Wait()
		stopped.Close()
		if inForeground(in) { // or the kernel would stop us; ^Z has put it back before
			unix.IoctlSetTermios(in, setTermios, mode)
		}
	}
}

// suspend stops this process at ^Z, with the terminal in the mode that it had, and takes it back to byKey when the process goes on in the
// foreground, until ctx ends. A shell does not know of byKey.
func suspend(ctx context.Context, in int, mode, byKey *unix.Termios) {
	stops, goesOn := make(chan os.Signal, 1), make(chan os.Signal, 1)
	if !signal.Ignored(unix.SIGTSTP) {
		signal.Notify(stops, unix.SIGTSTP)
		defer signal.Stop(stops)
	}
	signal.Notify(goesOn, unix.SIGCONT)
	defer signal.Stop(goesOn)
	for {
		select {
		case <-stops:
			session, err := unix.Getsid(0)
			if err != nil || proc.Orphaned(unix.Getpgrp(), session) { // nothing could continue us, and the kernel would not stop us either
				continue
			}
			if inForeground(in) {
				unix.IoctlSetTermios(in, setTermios, mode)
			}
			unix.Kill(os.Getpid(), unix.SIGSTOP)
		case <-goesOn:
			if inForeground(in) {
				unix.IoctlSetTermios(in, setTermios, byKey)
			}
		case <-ctx.Done():
			return
		}
	}
}

// inForeground reports whether this process is in the foreground of the terminal.
func inForeground(terminal int) bool {
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// readKeys reads keys until the other end of stopped is closed.
func (s *scroller) readKeys(ctx context.Context, in, stopped int) {
	buf := make([]byte, 64)
	for {
		fds := []unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}, {Fd: int32(stopped), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == unix.EINTR {
			continue
		} else if err != nil || fds[1].Revents != 0 {
			return
		}
		n, err := unix.Read(in, buf)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return
		}
		for keys := string(buf[:n]); keys != ""; {
			n := keyLen(keys)
			select {
			case s.keys <- keys[:n]:
			case <-ctx.Done():
				return
			}
			keys = keys[n:]
		}
	}
}

// keyLen returns how many bytes the first key takes: one, or a sequence that begins with an escape.
func keyLen(keys string) int {
	if len(keys) < 3 || keys[0] != '\x1b' || keys[1] != '[' && keys[1] != 'O' {
		return 1
	}
	for i := 2; i < len(keys); i++ {
		if keys[i] >= '@' { // ends a sequence
			return i + 1
		}
	}
	return len(keys)
}

// press does what a key is for, and reports whether it ends the view.
func (s *scroller) press(key string) (end bool, err error) {
	switch key {
	case "q":
		return true, nil
	case "\x1b[A", "\x1bOA", "k":
		s.top--
	case "\x1b[B", "\x1bOB", "j":
		s.top++
	case "\x1b[5~", "b":
		s.top -= s.page
	case "\x1b[6~", " ":
		s.top += s.page
	case "\x1b[H", "\x1b[1~", "g":
		s.top = 0
	case "\x1b[F", "\x1b[4~", "G":
		s.top += len(s.text) // more rows than there are
	}
	return false, s.draw()
}

// show shows another text.
func (s *scroller) show(text string) error {
	s.text = text
	return s.draw()
}

// draw shows the first row, and the others from the one at top on. The last row of the terminal stays free, for what else there is
// to say.
func (s *scroller) draw() error {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 5 {
		width, height = 80, 24
	}
	rows := wrap(s.text, width)
	below := ""
	if len(rows) < height {
		s.top = 0
	} else {
		s.page = height - 3
		all := len(rows) - 1
		s.top = max(0, min(s.top, all-s.page))
		below = fmt.Sprintf("\x1b[7mrows %d to %d of %d", s.top+1, s.top+s.page, all) // inverse
		if s.keys != nil {
			below += "; arrows, PgUp and PgDn move, q ends"
		}
		below += "\x1b[0m\n"
		rows = slices.Concat(rows[:1], rows[1+s.top:1+s.top+s.page])
	}
	_, err = fmt.Fprintf(s.out, "\x1b[H\x1b[2J%s\n%s", strings.Join(rows, "\n"), below) // home, clear
	return err
}

// wrap returns the rows that a text takes at a terminal of that width.
func wrap(text string, width int) (rows []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for utf8.RuneCountInString(line) > width {
			cut := 0
			for range width {
				_, n := utf8.DecodeRuneInString(line[cut:])
				cut += n
			}
			rows, line = append(rows, line[:cut]), line[cut:]
		}
		rows = append(rows, line)
	}
	return rows
}
