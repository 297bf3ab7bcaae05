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

// Where there is no terminal, a line is written when the wait has lasted for plainDelay, and then after ever longer pauses.
const (
	plainDelay    = 2 * time.Second
	plainPause    = time.Minute
	plainPauseMax = time.Hour
)

// A waitLine says what the wait is for: at a terminal in one line that is drawn over itself, elsewhere in a line now and then.
// A nil waitLine is silent.
type waitLine struct {
	name   string
	out    *os.File // nil if there is no terminal
	plain  io.Writer
	next   time.Duration // when the next plain line is due, from the start
	pause  time.Duration // behind it
	start  time.Time
	ticker *time.Ticker
	last   link.Note
	absent string // why no server is there; empty if one is
	drawn  bool
}

// newWaitLine returns a line on w.
func newWaitLine(name string, w io.Writer) *waitLine {
	l := &waitLine{name: name, plain: w, next: plainDelay, pause: plainPause, start: time.Now(), ticker: time.NewTicker(lineInterval)}
	out, ok := w.(*os.File)
	if ok && term.IsTerminal(int(out.Fd())) {
		l.out = out
	}
	return l
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

// cutOff notes why no server is there; an empty text says that one is there again.
func (l *waitLine) cutOff(why string) {
	if l == nil {
		return
	}
	l.absent = why
	if l.last.Is == "" && why == "" {
		l.clear() // the place in line is not known
	}
	l.draw()
}

func (l *waitLine) draw() {
	if l == nil || l.last.Is == "" && l.absent == "" {
		return
	}
	waited := time.Since(l.start)
	switch {
	case l.out == nil && waited >= l.next:
		fmt.Fprintln(l.plain, l.text(waited))
		l.next, l.pause = waited+l.pause, min(2*l.pause, plainPauseMax)
		return
	case l.out == nil || waited < lineDelay:
		return
	}
	if group, err := unix.IoctlGetInt(int(l.out.Fd()), unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return // in the background: the terminal is another job's
	}
	columns, _, err := term.GetSize(int(l.out.Fd()))
	if err != nil || columns <= 0 {
		columns = 80
	}
	fmt.Fprintf(l.out, "\r%s\x1b[K", clip(l.text(waited), columns-1))
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
	if l.absent != "" {
		return fmt.Sprintf("lockkeeper: waiting %v for %s; no server is there: %s", waited.Truncate(time.Second), l.name, l.absent)
	}
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
