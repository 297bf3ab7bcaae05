package peer

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
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

// A Peer is a running lock client. Its methods are for the goroutine of the test. Kill ends it as a crash would: its
// session lives until it expires.
type Peer struct {
	*proc.Talker
	t    testing.TB
	name string
}

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
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	t.Cleanup(func() { // behind that of the process
		if t.Failed() {
			t.Logf("stderr of %s:\n%s", c.Name, stderr.String())
		}
	})
	return &Peer{proc.Talk(t, c.Name, cmd), t, c.Name}
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
	<-p.Exited()
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

// Name returns the name that the peer gives to the register.
func (p *Peer) Name() string { return p.name }
