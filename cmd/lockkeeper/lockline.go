package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
)

// A lockLine is a lock with the contenders that hold it or wait for it.
type lockLine struct {
	Lock       string      `json:"lock"`
	Path       string      `json:"path"`
	Kind       string      `json:"kind,omitempty"`      // as lock.Kind has it
	Permits    int         `json:"permits,omitempty"`   // of a semaphore, if its znodes say
	Contenders []contender `json:"contenders"`          // in order, holders first
	Deadlocks  [][]wait    `json:"deadlocks,omitempty"` // cycles of waits that go through the lock
}

// A contender is a holder or a waiter, as JSON shows it.
type contender struct {
	State   string    `json:"state"`             // held or waiting
	Shared  bool      `json:"shared,omitempty"`  // with others that share the lock; else alone
	Revoked bool      `json:"revoked,omitempty"` // asked to give up
	Place   int       `json:"place"`             // how many are ahead; a holder that shares the lock may have some, too
	Since   time.Time `json:"since"`             // in the queue, by the server's clock
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	User    string    `json:"user,omitempty"`
	Gone    bool      `json:"gone,omitempty"` // the process was of this machine, and is no more
	Program string    `json:"program,omitempty"`
	Label   string    `json:"label,omitempty"`
	Data    string    `json:"data,omitempty"` // what another client has written into its node
	Token   int64     `json:"token"`
	Session string    `json:"session"`
	Node    string    `json:"node"`
}

// lineOf makes of a snapshot what is shown of it.
func lineOf(snap inspect.Snapshot) lockLine {
	l := lockLine{Lock: lockName(snap.Path), Path: snap.Path, Kind: string(snap.Kind), Permits: snap.Permits, Contenders: []contender{}}
	for _, c := range snap.Contenders {
		shown := contender{
			State: "waiting", Shared: c.Shared, Revoked: c.Revoked, Place: c.Place, Since: c.Since,
			Host: c.Owner.Host, PID: c.Owner.PID, User: c.Owner.User, Gone: gone(c.Owner), Program: c.Owner.Program, Label: c.Owner.Label,
			Token: c.Token, Session: fmt.Sprintf("0x%x", uint64(c.Session)), Node: c.Node,
		}
		if c.Held {
			shown.State = "held"
		}
		if c.Owner == (lock.Owner{}) {
			shown.Data = readable(c.Data)
		}
		l.Contenders = append(l.Contenders, shown)
	}
	return l
}

// gone reports whether a contender's process was one of those that we see, and has ended. Another container may have
// the name of this machine, and its numbers are not ours.
func gone(o lock.Owner) bool {
	us := new(lock.Options).Owner()
	return o.Host == us.Host && o.Space == us.Space && o.PID > 0 && errors.Is(syscall.Kill(o.PID, 0), syscall.ESRCH)
}

// dataShownMax is how much of foreign data is shown.
const dataShownMax = 60

// readable shows the data of a node that another client has made: as text if it is text, as it is with
// Curator, which writes an address.
func readable(data []byte) string {
	if !utf8.Valid(data) {
		return fmt.Sprintf("%d bytes", len(data))
	}
	if runes := []rune(string(data)); len(runes) > dataShownMax {
		return string(runes[:dataShownMax-1]) + "…"
	}
	return string(data)
}

func printLocks(w io.Writer, lines []lockLine, asJSON bool) error {
	if asJSON {
		return printJSON(w, lines)
	}
	rows := [][]string{{"LOCK", "KIND", "STATE", "IN QUEUE", "HOST", "PID", "USER", "PROGRAM", "LABEL"}}
	for _, l := range lines {
		kind := l.Kind
		if l.Permits > 0 && strings.HasSuffix(l.Kind, string(inspect.KindSemaphore)) {
			kind += " of " + strconv.Itoa(l.Permits)
		}
		if len(l.Contenders) == 0 {
			rows = append(rows, []string{l.Lock, kind, "free"})
		}
		for _, c := range l.Contenders {
			rows = append(rows, append([]string{l.Lock, kind}, c.row()...))
		}
	}
	return printTable(w, rows)
}

// row returns the columns about a contender.
func (c contender) row() []string {
	state, program, pid := c.State, c.Program, ""
	if c.State == "waiting" {
		state += " " + strconv.Itoa(c.Place)
	}
	if c.Shared {
		state += ", shared"
	}
	if c.Revoked {
		state += ", revoked"
	}
	if c.PID != 0 {
		pid = strconv.Itoa(c.PID)
	}
	if c.Gone {
		pid += " (gone)"
	}
	if program == "" {
		program = c.Data
	}
	return []string{state, age(c.Since), c.Host, pid, c.User, program, c.Label}
}

// age says how long ago t was. Clocks may differ, so it is never negative.
func age(t time.Time) string { return max(time.Since(t), 0).Truncate(time.Second).String() }
