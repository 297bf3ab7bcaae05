package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/localserver"
)

const (
	// historyMax is how many lines of history are kept.
	historyMax = 1000
	// lineMax is how many characters package term reads of a line. It drops those that follow, without an error.
	lineMax = 4096
)

// A lineEditor reads lines at a terminal, with history and completion. What is written to it while it reads appears
// above the line that is being typed.
type lineEditor struct {
	file    *os.File // the terminal
	term    *term.Terminal
	history *lineHistory
	answer  []byte // read and not passed on by Read
	cooked  *term.State

	mu      sync.Mutex // protects the following
	reading bool       // the terminal is in raw mode, with a prompt
}

// newLineEditor makes a line editor for standard input and output, which are a terminal. Without a history file the
// history ends with the process.
func newLineEditor(historyFile string) *lineEditor {
	e := &lineEditor{file: os.Stdin, history: &lineHistory{file: historyFile}}
	e.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&keyFilter{r: os.Stdin}, os.Stdout}, "")
	e.term.History = e.history
	e.history.load()
	return e
}

// complete sets what Tab does: it gets the line and the cursor, and returns new ones.
func (e *lineEditor) complete(f func(line string, pos int) (string, int, bool)) {
	e.term.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return f(line, pos)
	}
}

// Write shows text, above the prompt if there is one.
func (e *lineEditor) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading {
		return e.term.Write(b)
	}
	return os.Stdout.Write(b)
}

func (e *lineEditor) setReading(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading = on
}

// readLine reads a line. The terminal is in raw mode only meanwhile, so that ^C reaches what runs between two lines. A line that may
// have been cut is refused: it is empty then.
func (e *lineEditor) readLine(prompt string) (string, error) {
	state, err := term.MakeRaw(int(e.file.Fd()))
	if err != nil {
		return "", err
	}
	e.cooked = state
	defer term.Restore(int(e.file.Fd()), state)
	if width, height, err := term.GetSize(int(e.file.Fd())); err == nil && width > 0 {
		e.term.SetSize(width, height)
	}
	e.term.SetPrompt(prompt)
	e.setReading(true)
	line, err := e.term.ReadLine()
	e.setReading(false)
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	if utf8.RuneCountInString(line) >= lineMax {
		fmt.Fprintf(e, "a line of %d characters or more is not read at a terminal: nothing has been done (lockkeeper z set --file FILE PATH takes data from a file)\r\n", lineMax)
		line = ""
	}
	return line, err
}

// restore puts the terminal back into the mode that it had, for a process that ends while a line is being read.
func (e *lineEditor) restore() {
	if e.cooked != nil {
		term.Restore(int(e.file.Fd()), e.cooked)
	}
}

// Read implements io.Reader for what runs between two lines and asks something. ^D ends the input.
func (e *lineEditor) Read(b []byte) (int, error) {
	if len(e.answer) == 0 {
		history := e.term.History
		e.term.History = &lineHistory{} // an answer is no command
		line, err := e.readLine("")
		e.term.History = history
		if err != nil {
			return 0, io.EOF
		}
		e.answer = []byte(line + "\n")
	}
	n := copy(b, e.answer)
	e.answer = e.answer[n:]
	return n, nil
}

// A keyFilter turns ^C, which would end the input, into the keys that clear the line.
type keyFilter struct {
	r    io.Reader
	keys []byte // read and not passed on
}

func (f *keyFilter) Read(b []byte) (int, error) {
	const ctrlC, lineEnd, clearLine = 3, 5, 21
	if len(f.keys) == 0 {
		buf := make([]byte, max(len(b)/2, 1))
		n, err := f.r.Read(buf)
		for _, k := range buf[:n] {
			if k == ctrlC {
				f.keys = append(f.keys, lineEnd, clearLine)
			} else {
				f.keys = append(f.keys, k)
			}
		}
		if n == 0 {
			return 0, err
		}
	}
	n := copy(b, f.keys)
	f.keys = f.keys[n:]
	return n, nil
}

// A lineHistory is the history of a lineEditor, newest first for its reader, oldest first in its file. Lines with
// credentials are not kept.
type lineHistory struct {
	file  string
	lines []string // the oldest first
}

// Add implements term.History.
func (h *lineHistory) Add(line string) {
	if strings.TrimSpace(line) == "" || utf8.RuneCountInString(line) >= lineMax || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > historyMax {
		h.lines = slices.Delete(h.lines, 0, len(h.lines)-historyMax)
	}
	if h.file == "" || strings.Contains(strings.ToLower(unquoted.Replace(line)), "addauth") {
		return
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return // a history that cannot be kept is no reason to fail
	}
	f.WriteString(line + "\n")
	f.Close()
}

// unquoted takes away what may stand within a word of a line.
var unquoted = strings.NewReplacer(`"`, "", "'", "", `\`, "")

// Len implements term.History.
func (h *lineHistory) Len() int { return len(h.lines) }

// At implements term.History.
func (h *lineHistory) At(i int) string { return h.lines[len(h.lines)-1-i] }

// load reads the file, and shortens it when it has grown to twice what is kept.
func (h *lineHistory) load() {
	f, err := os.OpenFile(h.file, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	n := 0
	for scan.Scan() {
		n++
		h.lines = append(h.lines, scan.Text())
	}
	h.lines = h.lines[max(len(h.lines)-historyMax, 0):]
	if n > 2*historyMax {
		os.WriteFile(h.file, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
	}
}

// historyFile returns where the history of a shell is kept between sessions. It is empty if the directory is not the user's alone, as
// with sudo and the HOME of the user that has called it.
func historyFile(name string) string {
	places, err := localserver.FindPlaces(os.Getenv)
	if err != nil {
		return ""
	}
	dir, err := places.Private("")
	if err != nil {
		return ""
	}
	return filepath.Join(dir, name)
}
