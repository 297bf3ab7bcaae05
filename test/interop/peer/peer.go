package peer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

// A Kind is a make of lock client.
type Kind string

// The kinds.
const (
	Lockkeeper  Kind = "lockkeeper"
	Curator     Kind = "curator"
	GoZookeeper Kind = "go-zookeeper"
	// Kazoo uses kazoo's own znode names, which Curator does not recognise.
	Kazoo Kind = "kazoo"
	// KazooPatterns does so as well, but heeds znodes with Curator's names.
	KazooPatterns Kind = "kazoo-extra-patterns"
	// KazooCurator uses names that Curator recognises, too, and as a reader waits only for writers
	// ahead of it.
	KazooCurator Kind = "kazoo-curator-names"
)

// Config is what a peer needs to know.
type Config struct {
	Servers  string        // host:port,host:port
	Timeout  time.Duration // of the session, as asked for
	Name     string        // unique, without spaces
	Register string        // address
}

// answerTimeout bounds how long a peer may take to answer anything; a test that is slower than this
// hangs.
const answerTimeout = 2 * time.Minute

// A Peer is a running lock client. Its methods are for the goroutine of the test.
type Peer struct {
	t       testing.TB
	name    string
	process *proc.Process
	stdin   io.Writer
	stderr  lockedBuffer
	answers chan string // lines from stdout; closed at their end
}

// answersMax bounds the answers that nobody has asked for yet. There is one command under way at a
// time, so one would do.
const answersMax = 16

// Start runs a peer that lives no longer than the test, and returns when it is ready.
func Start(t testing.TB, k Kind, c Config) *Peer {
	t.Helper()
	p := Launch(t, k, c)
	p.Expect("ready")
	return p
}

// Launch is Start without the wait for "ready".
func Launch(t testing.TB, k Kind, c Config) *Peer {
	t.Helper()
	cmd, err := command(k)
	if err != nil {
		t.Fatalf("%s: %v", k, err)
	}
	cmd.Args = append(cmd.Args, c.Servers, fmt.Sprint(c.Timeout.Milliseconds()), c.Name, c.Register)
	p := &Peer{t: t, name: c.Name, answers: make(chan string, answersMax)}
	cmd.Stderr = &p.stderr
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	p.process, err = proc.Start(cmd)
	w.Close()
	if err != nil {
		t.Fatalf("start %s: %v", k, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer stdout.Close()
		defer close(p.answers)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.answers <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		p.process.Kill()
		for range p.answers { // lest the reader wait for ever
		}
		<-read
		if t.Failed() {
			t.Logf("stderr of %s:\n%s", p.name, p.stderr.String())
		}
	})
	return p
}

// command returns the command that runs a peer of this kind; its arguments follow.
func command(k Kind) (*exec.Cmd, error) {
	switch k {
	case Curator:
		classes, err := curatorClasses()
		return exec.Command("/usr/bin/java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-XX:-UsePerfData", "-cp", classes+":"+curatorJars, curatorClass), err
	case Kazoo:
		return kazoo("own-names"), nil
	case KazooPatterns:
		return kazoo("extra-patterns"), nil
	case KazooCurator:
		return kazoo("curator-names"), nil
	case GoZookeeper, Lockkeeper:
		return again(k)
	}
	return nil, fmt.Errorf("no such kind of peer")
}

// Send gives the peer a command. There must be no other under way.
func (p *Peer) Send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.stdin, format+"\n", args...); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// Expect waits for the answer to the last command, which must begin with the word want, and
// returns the rest of it.
func (p *Peer) Expect(want string) string {
	p.t.Helper()
	select {
	case a, ok := <-p.answers:
		if !ok {
			p.t.Fatalf("%s ended instead of answering %q", p.name, want)
		}
		word, rest, _ := strings.Cut(a, " ")
		if word != want {
			p.t.Fatalf("%s answers %q, want %q", p.name, a, want)
		}
		return rest
	case <-time.After(answerTimeout):
		p.t.Fatalf("%s has not answered %q within %v", p.name, want, answerTimeout)
	}
	return ""
}

// Quiet fails the test if the peer answers within d: it is a command that must not be over yet.
func (p *Peer) Quiet(d time.Duration) {
	p.t.Helper()
	select {
	case a := <-p.answers:
		p.t.Fatalf("%s answers %q, should still wait", p.name, a)
	case <-time.After(d):
	}
}

// ExpectHeld waits until the lock that was asked for is held, and returns its token.
func (p *Peer) ExpectHeld() int64 {
	p.t.Helper()
	token, err := strconv.ParseInt(p.Expect("held"), 10, 64)
	if err != nil {
		p.t.Fatalf("%s: token: %v", p.name, err)
	}
	return token
}

// Lock acquires the mutex at path and returns the token.
func (p *Peer) Lock(path string) int64 {
	p.t.Helper()
	return p.Take(path, Mutex)
}

// Take acquires the lock at path and returns the token.
func (p *Peer) Take(path string, as As) int64 {
	p.t.Helper()
	p.Ask(path, as)
	return p.ExpectHeld()
}

// Ask begins to acquire the lock at path; ExpectHeld is the end of that.
func (p *Peer) Ask(path string, as As) {
	p.t.Helper()
	p.Send("lock %s %s", path, as)
}

// Spin begins to take the lock at path again and again, as each of several in turn, for as long as d,
// and to stay inside for a while each time; ExpectDone is the end of that.
func (p *Peer) Spin(path string, d, inside time.Duration, as ...As) {
	p.t.Helper()
	p.Send("spin %s %d %d %s", path, d.Milliseconds(), inside.Milliseconds(), join(as))
}

// ExpectDone waits until what the peer was told to repeat is over, and returns how often it did it.
func (p *Peer) ExpectDone() int {
	p.t.Helper()
	n, err := strconv.Atoi(p.Expect("done"))
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return n
}

// Unlock releases it.
func (p *Peer) Unlock() {
	p.t.Helper()
	p.Send("unlock")
	p.Expect("released")
}

// Quit closes the peer's session and ends it.
func (p *Peer) Quit() {
	p.t.Helper()
	p.Send("quit")
	p.Expect("bye")
	<-p.process.Exited()
}

// Kill ends the peer as a crash would. Its session lives until it expires.
func (p *Peer) Kill() { p.process.Kill() }

// Freeze stops the peer where it is; Thaw lets it go on.
func (p *Peer) Freeze() {
	p.t.Helper()
	if err := p.process.Freeze(); err != nil {
		p.t.Fatal(err)
	}
}

// Thaw ends a Freeze.
func (p *Peer) Thaw() {
	p.t.Helper()
	if err := p.process.Thaw(); err != nil {
		p.t.Fatal(err)
	}
}

// A lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
