// Package register is the outside judge of locks: holders tell it when they enter and when they
// leave, over TCP, and it finds out whether two were ever inside at once.
//
// It trusts no client. A holder is inside from the moment its "enter" is read until its "leave" is, or
// until its connection ends: a process that was killed does no more work, and the kernel closes its
// socket. As a holder enters after it has the lock and leaves before it gives it up, two that
// overlap here have overlapped in truth.
//
// Holders are judged by place: the lock that they hold. Each says how many may be inside there with it
// at most, itself included: one if it is to be alone, the number of permits of a semaphore, Unlimited if
// it shares with all that share.
//
// A line of the protocol is "enter NAME TOKEN [PLACE LIMIT]" or "leave NAME [PLACE]"; the answer is "ok"
// or what is wrong. Without a place it is the lock that has no name, and the limit is one. The token is
// the creation zxid of the holder's znode. Where one holder must be alone, it must be above
// the tokens of all that entered before: that makes it a fencing token. It also means first come, first
// served, as a znode's creation is the moment its owner joined the line.
package register

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Unlimited is the limit of a holder that shares with all that share.
const Unlimited = math.MaxInt32

// An Entry is what a holder says of what it holds.
type Entry struct {
	Place string // a word, or nothing
	Token int64
	Limit int // how many may be inside with it, itself included
}

// A Visit is one holder's stay inside.
type Visit struct {
	Name string
	Entry
	Enter, Leave time.Time
	Together     int  // how many were inside when it had entered, itself included
	Died         bool // the connection ended instead of a leave
}

// A Register listens on the loopback address until Close.
type Register struct {
	ln net.Listener
	wg sync.WaitGroup

	mu struct {
		sync.Mutex
		conns   map[net.Conn]struct{}
		places  map[string]*place
		visits  []Visit // over, in the order of leaving
		faults  []string
		changed chan struct{} // closed and replaced at every entry and departure
	}
}

// A place is one lock.
type place struct {
	inside map[string]*Visit // by name
	last   Visit             // with the highest token of all that entered
	alone  Visit             // the same of those that had to be alone
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
	r.mu.places = map[string]*place{}
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

// Inside returns which holders are inside anywhere, and a channel that is closed when that changes.
func (r *Register) Inside() (names []string, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.mu.places {
		for n := range p.inside {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), r.mu.changed
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
	entered := map[string]string{} // by way of this connection: names, by place
	defer func() {
		nc.Close()
		for place, name := range entered {
			r.leave(name, place, true)
		}
		r.mu.Lock()
		delete(r.mu.conns, nc)
		r.mu.Unlock()
	}()
	for lines := bufio.NewScanner(nc); lines.Scan(); {
		answer := "bad line"
		switch f := strings.Fields(lines.Text()); {
		case (len(f) == 3 || len(f) == 5) && f[0] == "enter":
			if e, err := parseEntry(f[2:]); err == nil {
				entered[e.Place] = f[1]
				answer = r.enter(f[1], e)
			}
		case (len(f) == 2 || len(f) == 3) && f[0] == "leave":
			place := strings.Join(f[2:], "")
			if entered[place] == f[1] {
				delete(entered, place)
				answer = r.leave(f[1], place, false)
			}
		}
		if _, err := fmt.Fprintln(nc, answer); err != nil {
			return
		}
	}
}

// parseEntry reads "TOKEN" or "TOKEN PLACE LIMIT".
func parseEntry(f []string) (e Entry, err error) {
	e.Limit = 1
	if e.Token, err = strconv.ParseInt(f[0], 10, 64); err == nil && len(f) > 1 {
		e.Place = f[1]
		e.Limit, err = strconv.Atoi(f[2])
	}
	return e, err
}

func (r *Register) enter(name string, e Entry) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.mu.places[e.Place]
	if p == nil {
		p = &place{inside: map[string]*Visit{}}
		r.mu.places[e.Place] = p
	}
	v := Visit{Name: name, Entry: e, Enter: time.Now(), Together: len(p.inside) + 1}
	for other, o := range p.inside {
		if v.Together > min(e.Limit, o.Limit) {
			r.faultLocked("%s entered %s with token %#x while %s was inside with %#x, since %v: %d, and may be %d and %d",
				name, e.Place, e.Token, other, o.Token, v.Enter.Sub(o.Enter), v.Together, e.Limit, o.Limit)
		}
	}
	before := p.alone
	if e.Limit == 1 {
		before = p.last
	}
	if e.Token <= before.Token {
		r.faultLocked("%s entered %s with token %#x after %s had entered with %#x",
			name, e.Place, e.Token, before.Name, before.Token)
	}
	p.inside[name] = &v
	if v.Token > p.last.Token {
		p.last = v
	}
	if v.Limit == 1 && v.Token > p.alone.Token {
		p.alone = v
	}
	r.changeLocked()
	return "ok"
}

func (r *Register) leave(name, from string, died bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.mu.places[from]
	if p == nil || p.inside[name] == nil {
		return "not inside"
	}
	v := p.inside[name]
	delete(p.inside, name)
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
