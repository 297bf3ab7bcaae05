package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

// A process is a client as its test sees it.
type process struct {
	*proc.Process
	config clientConfig
	host   host
	stdin  io.Writer
	read   chan struct{} // closed when all that it wrote has been read

	mu     sync.Mutex
	events []event // guarded by mu
}

// A host is where a client runs.
type host struct {
	number  int // from 0
	command func(name string, args ...string) *exec.Cmd
}

// startClient runs a client that lives no longer than the test.
func startClient(t testing.TB, h host, c clientConfig) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.command(self)
	cmd.Env = append(os.Environ(), clientVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	p := &process{config: c, host: h, read: make(chan struct{})}
	var lines <-chan string
	if p.Process, p.stdin, lines, err = proc.Lines(cmd); err != nil {
		t.Fatal(err)
	}
	go p.listen(lines)
	t.Cleanup(p.end)
	return p
}

// listen takes what the client writes; the last line of one that was killed may be half a line, of something that
// it had not done yet.
func (p *process) listen(lines <-chan string) {
	defer close(p.read)
	for line := range lines {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil {
			p.mu.Lock()
			p.events = append(p.events, e)
			p.mu.Unlock()
		}
	}
}

// tell gives the client a command. One that is dead does not hear it.
func (p *process) tell(format string, args ...any) { fmt.Fprintf(p.stdin, format+"\n", args...) }

// end kills the client and waits for all that it has written.
func (p *process) end() {
	p.Kill()
	<-p.read
}

// stop lets the client come to an end by itself, and reports whether it did.
func (p *process) stop(patience time.Duration) bool {
	p.tell("stop")
	select {
	case <-p.read:
	case <-time.After(patience):
	}
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.events) > 0 && p.events[len(p.events)-1].Kind == bye
}

// grantedSince returns the locks that were granted to the client after a time.
func (p *process) grantedSince(at int64) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for i := len(p.events) - 1; i >= 0 && p.events[i].At >= at; i-- {
		if p.events[i].Kind == granted {
			keys = append(keys, keyOf(p.events[i].Key))
		}
	}
	return keys
}

// holds reports whether the client holds a lock, as far as it has said.
func (p *process) holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, e := range p.events {
		switch e.Kind {
		case granted:
			count++
		case ended:
			count--
		}
	}
	return count > 0
}

// last returns the last event of a kind that the client has written.
func (p *process) last(k kind) (e event, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Backward(p.events) {
		if e.Kind == k {
			return e, true
		}
	}
	return event{}, false
}

// keyOf returns the lock's name without its epoch.
func keyOf(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/chaos/"), "-")
	return name
}
