package front

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

// lineInterval is how often the waiting line is drawn anew; lineDelay spares the eye a line that
// would vanish at once.
const (
	lineInterval = time.Second
	lineDelay    = 150 * time.Millisecond
)

// A waitLine tells somebody at a terminal, in one line that is drawn over itself, what we wait for.
// A nil waitLine is silent.
type waitLine struct {
	name   string
	out    *os.File
	start  time.Time
	ticker *time.Ticker
	last   link.Note
	drawn  bool
}

// newWaitLine returns a line on w, or nil if w is not a terminal.
func newWaitLine(name string, w io.Writer) *waitLine {
	out, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	return &waitLine{name: name, out: out, start: time.Now(), ticker: time.NewTicker(lineInterval)}
}

func (l *waitLine) tick() <-chan time.Time {
	if l == nil {
		return nil
	}
	return l.ticker.C
}

func (l *waitLine) update(n link.Note) {
	if l == nil {
		return
	}
	l.last = n
	l.draw()
}

func (l *waitLine) draw() {
	if l == nil || l.last.Is == "" || time.Since(l.start) < lineDelay {
		return
	}
	if group, err := unix.IoctlGetInt(int(l.out.Fd()), unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return // in the background: the terminal is somebody else's
	}
	columns, _, err := term.GetSize(int(l.out.Fd()))
	if err != nil || columns <= 0 {
		columns = 80
	}
	fmt.Fprintf(l.out, "\r%s\x1b[K", clip(l.text(time.Since(l.start)), columns-1))
	l.drawn = true
}

// clear takes the line away.
func (l *waitLine) clear() {
	if l != nil && l.drawn {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.drawn = false
	}
}

// text is what there is to say, what matters most first: a narrow terminal shows no more.
func (l *waitLine) text(waited time.Duration) string {
	text := fmt.Sprintf("lockkeeper: waiting %v for %s, behind %d", waited.Truncate(time.Second), l.name, l.last.Ahead)
	if l.last.Holder != "" {
		text += "; held by " + l.last.Holder
	}
	return text
}

// clip cuts s to a number of columns, counting a character as one.
func clip(s string, columns int) string {
	runes := []rune(s)
	if len(runes) > columns && columns > 1 {
		runes = append(runes[:columns-1], '…')
	}
	return string(runes)
}
