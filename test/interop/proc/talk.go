package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// linesMax is how many lines of a process may wait to be read.
const linesMax = 16

// Lines starts cmd, and returns its stdin and what it writes to stdout, line by line: until it has ended, and every process that
// began must read to the end.
func Lines(cmd *exec.Cmd) (p *Process, stdin io.Writer, lines <-chan string, err error) {
	if stdin, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	stdout, w, err := os.Pipe() // unlike a StdoutPipe's, what is in it outlives the process
	if err != nil {
		return nil, nil, nil, err
	}
	cmd.Stdout = w
	p, err = Start(cmd)
	w.Close()
	if err != nil {
		stdout.Close()
		return nil, nil, nil, err
	}
	read := make(chan string, linesMax)
	go func() {
		defer close(read)
		defer stdout.Close()
		for s := bufio.NewScanner(stdout); s.Scan(); {
			read <- s.Text()
		}
	}()
	return p, stdin, read, nil
}

// answerTimeout bounds how long a talker may take to answer anything; a test that is slower than this hangs.
const answerTimeout = 2 * time.Minute

// A Talker is a process that is told lines on stdin and answers each with a line. Its methods are for the goroutine
// of the test.
type Talker struct {
	*Process
	t       testing.TB
	name    string
	stdin   io.Writer
	answers <-chan string
}

// Talk starts cmd as a talker that lives no longer than the test, and is called name in what it reports.
func Talk(t testing.TB, name string, cmd *exec.Cmd) *Talker {
	t.Helper()
	p := &Talker{t: t, name: name}
	var err error
	if p.Process, p.stdin, p.answers, err = Lines(cmd); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.Kill()
		for range p.answers { // that were not asked for
		}
	})
	return p
}

// Send tells the talker something. There must be nothing else that it has not answered yet.
func (p *Talker) Send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.stdin, format+"\n", args...); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// Answer waits for the answer to what was sent last.
func (p *Talker) Answer() string {
	p.t.Helper()
	select {
	case a, ok := <-p.answers:
		if !ok {
			p.t.Fatalf("%s ended instead of answering", p.name)
		}
		return a
	case <-time.After(answerTimeout):
		p.t.Fatalf("%s has not answered within %v", p.name, answerTimeout)
	}
	return ""
}

// Expect waits for the answer to what was sent last, which must begin with the word want, and returns the rest of it.
func (p *Talker) Expect(want string) string {
	p.t.Helper()
	a := p.Answer()
	word, rest, _ := strings.Cut(a, " ")
	if word != want {
		p.t.Fatalf("%s answers %q, want %q", p.name, a, want)
	}
	return rest
}

// Quiet fails the test if the talker answers within d: it was sent something that must not be over yet.
func (p *Talker) Quiet(d time.Duration) {
	p.t.Helper()
	select {
	case a := <-p.answers:
		p.t.Fatalf("%s answers %q, should still wait", p.name, a)
	case <-time.After(d):
	}
}

// Freeze stops the talker where it is; Thaw lets it go on.
func (p *Talker) Freeze() {
	p.t.Helper()
	if err := p.Process.Freeze(); err != nil {
		p.t.Fatal(err)
	}
}

// Thaw ends a Freeze.
func (p *Talker) Thaw() {
	p.t.Helper()
	if err := p.Process.Thaw(); err != nil {
		p.t.Fatal(err)
	}
}
