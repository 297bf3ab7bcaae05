// Package register is the outside judge of locks: holders tell it when they enter and when they
// leave, over TCP, and it finds out whether two were ever inside at once.
//
// It trusts nobody. A holder is inside from the moment its "enter" is read until its "leave" is, or
// until its connection ends: a process that was killed does no more work, and the kernel closes its
// socket. As a holder enters after it has the lock and leaves before it gives it up, two that
// overlap here have overlapped in truth.
//
// A line of the protocol is "enter NAME TOKEN" or "leave NAME"; the answer is "ok" or what is wrong.
// The token is the creation zxid of the holder's znode. Tokens must grow from holder to holder: that
// is what makes them fencing tokens, and it also is first come, first served, as a znode's creation
// is the moment its owner joined the line.
package register

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Visit is one holder's stay inside.
type Visit struct {
	Name         string
	Token        int64
	Enter, Leave time.Time
	Died         bool // the connection ended instead of a leave
}

// A Register listens on the loopback address until Close.
type Register struct {
	ln net.Listener
	wg sync.WaitGroup

	mu struct {
		sync.Mutex
		conns   map[net.Conn]struct{}
		inside  map[string]*Visit // by name
		visits  []Visit           // over, in the order of leaving
		last    Visit             // the newest to have entered
		faults  []string
		changed chan struct{} // closed and replaced at every entry and departure
	}
}

// faultsMax bounds how many faults are kept; the first ones tell the story.
const faultsMax = 20

// Open starts a register.
func Open() (*Register, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Register{ln: ln}
	r.mu.conns = map[net.Conn]struct{}{}
	r.mu.inside = map[string]*Visit{}
	r.mu.changed = make(chan struct{})
	r.wg.Go(r.accept)
	return r, nil
}

// Addr returns host and port for holders.
func (r *Register) Addr() string { return r.ln.Addr().String() }

// Close ends all connections and waits for what serves them.
func (r *Register) Close() {
	r.ln.Close()
	r.mu.Lock()
	for nc := range r.mu.conns {
		nc.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// Visits returns the visits that are over, in the order of leaving.
func (r *Register) Visits() []Visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mu.visits)
}

// Faults returns what holders did that locks must not allow.
func (r *Register) Faults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mu.faults)
}

// Inside returns who is inside, and a channel that is closed when that changes.
func (r *Register) Inside() (names []string, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.mu.inside {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, r.mu.changed
}

func (r *Register) accept() {
	for {
		nc, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.mu.conns[nc] = struct{}{}
		r.mu.Unlock()
		r.wg.Go(func() { r.serve(nc) })
	}
}

// serve answers one holder's connection.
func (r *Register) serve(nc net.Conn) {
	var name string // that is inside by way of this connection
	defer func() {
		nc.Close()
		if name != "" {
			r.leave(name, true)
		}
		r.mu.Lock()
		delete(r.mu.conns, nc)
		r.mu.Unlock()
	}()
	for lines := bufio.NewScanner(nc); lines.Scan(); {
		answer := "bad line"
		switch f := strings.Fields(lines.Text()); {
		case len(f) == 3 && f[0] == "enter":
			if token, err := strconv.ParseInt(f[2], 10, 64); err == nil {
				name = f[1]
				answer = r.enter(name, token)
			}
		case len(f) == 2 && f[0] == "leave" && f[1] == name:
			name = ""
			answer = r.leave(f[1], false)
		}
		if _, err := fmt.Fprintln(nc, answer); err != nil {
			return
		}
	}
}

func (r *Register) enter(name string, token int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := Visit{Name: name, Token: token, Enter: time.Now()}
	for other, o := range r.mu.inside {
		r.faultLocked("%s entered with token %#x while %s was inside with %#x, since %v",
			name, token, other, o.Token, v.Enter.Sub(o.Enter))
	}
	if token <= r.mu.last.Token {
		r.faultLocked("%s entered with token %#x after %s had entered with %#x",
			name, token, r.mu.last.Name, r.mu.last.Token)
	}
	r.mu.inside[name] = &v
	r.mu.last = v
	r.changeLocked()
	return "ok"
}

func (r *Register) leave(name string, died bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.mu.inside[name]
	if !ok {
		return "not inside"
	}
	delete(r.mu.inside, name)
	v.Leave, v.Died = time.Now(), died
	r.mu.visits = append(r.mu.visits, *v)
	r.changeLocked()
	return "ok"
}

func (r *Register) changeLocked() {
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

func (r *Register) faultLocked(format string, args ...any) {
	if len(r.mu.faults) < faultsMax {
		r.mu.faults = append(r.mu.faults, fmt.Sprintf(format, args...))
	}
}
