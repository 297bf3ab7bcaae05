package faultproxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Kind says what an Entry is about.
type Kind int

// The kinds of entries.
const (
	Opened   Kind = iota // a client's connection has been joined to the server's
	Asked                // a request has arrived from the client
	Answered             // its answer has arrived from the server
	Notified             // a watch event has arrived from the server
	Closed               // the connection is over in both directions
)

var kindNames = [...]string{"opened", "asked", "answered", "notified", "closed"}

func (k Kind) String() string { return kindNames[k] }

// An Entry is one line of the proxy's record: what passed, and when.
type Entry struct {
	At   time.Time
	Conn int
	Kind Kind

	Op        wire.Op // Asked, Answered; 0 for an answer that belongs to no request
	Xid       int32
	Path      string // of the request, or of the event
	Steps     []Step // of a multi or a setWatches
	Watch     bool
	Zxid      int64        // Answered, Notified
	Err       zk.Code      // Answered
	EventType zk.EventType // Notified

	// Read is the number of the proxy's read in which the frame ended, counted for each connection
	// and direction. Frames with the same number came in one read, which is as close as a stream
	// lets one look at "they left in one write": two writes may share a read, and a large write may
	// take several.
	Read int

	// Lost says that the frame went no further than the proxy.
	Lost bool
}

func (e Entry) String() string {
	s := fmt.Sprintf("%s #%d %v", e.At.Format("15:04:05.000000"), e.Conn, e.Kind)
	switch e.Kind {
	case Asked:
		s += fmt.Sprintf(" %v %s xid=%d watch=%v read=%d", e.Op, e.Path, e.Xid, e.Watch, e.Read)
	case Answered:
		s += fmt.Sprintf(" %v %s xid=%d zxid=%#x err=%d", e.Op, e.Path, e.Xid, e.Zxid, e.Err)
	case Notified:
		s += fmt.Sprintf(" %s %v", e.Path, e.EventType)
	}
	if e.Lost {
		s += " (lost)"
	}
	return s
}

// A Mark is a place in the record.
type Mark int

// A Log is a part of the record, oldest entry first.
type Log []Entry

// Asked returns the requests among the entries, of the given operations or of all.
func (l Log) Asked(ops ...wire.Op) Log {
	return l.filter(func(e Entry) bool {
		return e.Kind == Asked && (len(ops) == 0 || slices.Contains(ops, e.Op))
	})
}

// Answered returns the answers among the entries, to the given operations or to all.
func (l Log) Answered(ops ...wire.Op) Log {
	return l.filter(func(e Entry) bool {
		return e.Kind == Answered && (len(ops) == 0 || slices.Contains(ops, e.Op))
	})
}

// Of returns the entries about one connection.
func (l Log) Of(conn int) Log { return l.filter(func(e Entry) bool { return e.Conn == conn }) }

// But returns the entries that are not about any of the given operations; pings are what one
// usually wants to be rid of.
func (l Log) But(ops ...wire.Op) Log {
	return l.filter(func(e Entry) bool { return !slices.Contains(ops, e.Op) })
}

// Reads returns in how many reads the entries arrived (see Entry.Read).
func (l Log) Reads() int {
	type read struct{ conn, n, toClient int }
	seen := map[read]bool{}
	for _, e := range l {
		switch e.Kind {
		case Asked:
			seen[read{e.Conn, e.Read, 0}] = true
		case Answered, Notified:
			seen[read{e.Conn, e.Read, 1}] = true
		}
	}
	return len(seen)
}

// Ops returns the operations of the entries, in order, as a test would write them down.
func (l Log) Ops() string {
	names := make([]string, len(l))
	for i, e := range l {
		names[i] = e.Op.String()
	}
	return strings.Join(names, ", ")
}

func (l Log) String() string {
	var b strings.Builder
	for _, e := range l {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

func (l Log) filter(keep func(Entry) bool) Log {
	var out Log
	for _, e := range l {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}
