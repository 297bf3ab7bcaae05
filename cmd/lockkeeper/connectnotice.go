package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
)

// lateAfter is how long a command at a terminal looks for a server without a word.
const lateAfter = time.Second

// A lateNotice tells a user at a terminal that no server has answered yet.
type lateNotice struct {
	timer *time.Timer // nil if nothing is to be said

	mu   sync.Mutex
	last error // of the attempts so far; guarded by mu
}

// newLateNotice begins to count the time. stop ends it.
func newLateNotice(to access.Settings, limit time.Duration, notice func(string)) *lateNotice {
	l := &lateNotice{}
	if to.Quiet || !term.IsTerminal(int(os.Stderr.Fd())) {
		return l
	}
	l.timer = time.AfterFunc(lateAfter, func() { notice(l.text(to.Servers, limit)) })
	return l
}

// attempt notes how an attempt to connect has ended.
func (l *lateNotice) attempt(_ string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.last = err
	}
}

func (l *lateNotice) text(servers string, limit time.Duration) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if servers == access.Local {
		servers = "keeper on this machine"
	}
	text := fmt.Sprintf("%s: no session after %v (trying for %v; --connect-timeout changes that)", servers, lateAfter, limit)
	if l.last != nil {
		text += ": " + l.last.Error()
	}
	return printable.Text(text)
}

func (l *lateNotice) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
