package clients

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed testdata/cclient.txt
var cCommands string

// The C client, by its own shell. It checks answers for what the Java client forgives.
func TestCClient(t *testing.T) {
	tidy := replacer(
		`[0-9]{4}-[0-9-]+ [0-9:,]+:[0-9]+\(0x[0-9a-f]+\):ZOO_(INFO|DEBUG).*\n`, "",
		`(?m)^time = .*\n`, "",
		`(?i)(.time[ =:]+)[^\n]*`, "$1 now",
		`\b(0x)?[0-9a-f]{15,16}\b`, "session",
		`127\.0\.0\.1:[0-9]+`, "server",
	)
	said := sameOnBoth(t, func(s string) string { return sortLists(byThread(tidy(s))) }, func(addr string) (string, error) {
		return shell(t, cCommands, "/last: rc = -101", "quit\n", "/usr/lib/zookeeper/bin/cli_mt", addr)
	})
	mustSay(t, said, "[/a]: rc = -110", "/a: rc = -111", "name = /a/es-0000000002", "value_len = 5", "CREATED_EVENT state = CONNECTED_STATE for path /none")
}

// What the shell itself says may begin behind a znode's data, which the client's thread writes without
// an end of line.
var fromMain = regexp.MustCompile(`(Creating \[|Error -|Quitting).*\n`)

// byThread puts what the shell itself says behind what the client's thread says of answers, because
// nothing keeps the two in step.
func byThread(s string) string {
	return fromMain.ReplaceAllString(s, "") + strings.Join(fromMain.FindAllString(s, -1), "")
}

func TestByThread(t *testing.T) {
	const want = "/a: rc = 0\n value_len = 5\nhello\nStat:\nError -101 for /last\n"
	for _, said := range []string{
		"Error -101 for /last\n/a: rc = 0\n value_len = 5\nhello\nStat:\n",
		"/a: rc = 0\n value_len = 5\nhelloError -101 for /last\n\nStat:\n",
	} {
		if got := byThread(said); got != want {
			t.Errorf("of %q comes %q, want %q", said, got, want)
		}
	}
}

var listed = regexp.MustCompile(`(?m)(^\t[a-z]+-?[0-9]*\n){2,}`)

// sortLists sorts the names of children, one to a line.
func sortLists(s string) string {
	return listed.ReplaceAllStringFunc(s, func(names string) string {
		return strings.Join(slices.Sorted(strings.Lines(names)), "")
	})
}

// answerTimeout bounds the wait for the last answer.
const answerTimeout = 20 * time.Second

// shell is run for a command that leaves as soon as it is told to: it is told so only when it has
// said last.
func shell(t *testing.T, stdin, last, quit, command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, args...)
	said := &awaited{text: last, found: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = said, said
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		return "", err
	}
	if _, err = io.WriteString(in, stdin); err == nil {
		select {
		case <-said.found:
			_, err = io.WriteString(in, quit)
		case <-time.After(answerTimeout):
			err = fmt.Errorf("it never says %q", last)
			cancel()
		}
	}
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	return said.b.String(), err
}

// An awaited is what a command says, and closes found when text is in it.
type awaited struct {
	text  string
	found chan struct{}
	mu    sync.Mutex
	b     strings.Builder
	once  sync.Once
}

func (a *awaited) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.b.Write(p)
	if strings.Contains(a.b.String(), a.text) {
		a.once.Do(func() { close(a.found) })
	}
	return n, err
}
