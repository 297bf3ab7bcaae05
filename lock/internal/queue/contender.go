package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A Kind says what a lock is, as its znodes tell.
type Kind string

// The kinds of locks, which package inspect describes.
const (
	KindNone             Kind = ""
	KindMutex            Kind = "mutex"
	KindReadWrite        Kind = "read-write"
	KindSemaphore        Kind = "semaphore"
	KindCuratorSemaphore Kind = "curator-semaphore"
	KindKazooSemaphore   Kind = "kazoo-semaphore"
	KindElection         Kind = "election"
	KindUnfair           Kind = "unfair"
)

// KindOf tells what a directory is from the names in it, and how many permits are stored with it.
func KindOf(names []string, permits int) Kind {
	var modes Mode
	rw := false
	for _, name := range names {
		_, k, ok := ParseName(name)
		if ok {
			modes |= k
			rw = rw || k == Shared || mayMove(name)
		}
	}
	switch {
	case modes&Permit != 0:
		return KindSemaphore
	case rw:
		return KindReadWrite
	case modes&Exclusive != 0:
		return KindMutex
	case modes&Candidacy != 0:
		return KindElection
	case isCuratorSemaphore(names):
		return KindCuratorSemaphore
	case permits > 0: // and there is no contender just now
		return KindSemaphore
	case slices.Contains(names, LeasesName):
		return KindCuratorSemaphore
	}
	return KindNone
}

// KazooPermits returns the number of permits of kazoo's Semaphore, which is all that its directory's data say; 0 for other data.
func KazooPermits(data []byte) int {
	n, _ := strconv.Atoi(string(data)) // 0 with an error
	return max(n, 0)
}

// KazooHolders returns those of names that holders of kazoo's Semaphore have: an id and nothing else.
func KazooHolders(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(name) != IDDigits || !MadeByKazoo(name) })
}

// MadeByKazoo reports whether a node has a name that kazoo gives to contenders.
func MadeByKazoo(name string) bool {
	return len(name) >= IDDigits && strings.Trim(name[:IDDigits], "0123456789abcdef") == "" && (len(name) == IDDigits || name[IDDigits] == '_')
}

// A Contender is a process that holds a lock or waits for it, as its znode shows it.
type Contender struct {
	Node    string    // path of its node
	Session int64     // that owns the node
	Token   int64     // creation zxid of the node
	Since   time.Time // when it joined the queue, by the server's clock; not when it got the lock
	Shared  bool      // it asks for the read side of a read/write lock
	Latch   bool      // it stands in a latch's queue, as a candidate of an election
	Owner   Owner     // which process it is; zero if another library made the node
	Data    []byte    // the node's data as it is

	Held    bool // it holds the lock, going by the queue: its process may not have heard of that yet
	Place   int  // how many are ahead of it in the queue, 0 for the first; readers ahead of a reader count too
	Revoked bool // it was asked to give the lock up; see inspect.Revoke
}

// dataDescribed is up to how many bytes of another library's data describe a contender.
const dataDescribed = 60

// Describe returns words that describe the contender, "backup pid 4711 on host7 (nightly)" for example; empty if Node is. They are what
// its client has written, with a question mark for what cannot be printed.
func (c Contender) Describe() string {
	if c.Node == "" {
		return ""
	}
	var parts []string
	if c.Owner.Program != "" {
		parts = append(parts, printable(c.Owner.Program))
	}
	if c.Owner.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", c.Owner.PID))
	}
	if c.Owner.Host != "" {
		parts = append(parts, "on "+printable(c.Owner.Host))
	}
	if c.Owner.Label != "" {
		parts = append(parts, "("+printable(c.Owner.Label)+")")
	}
	if len(parts) == 0 {
		if text := string(c.Data); text != "" && len(text) <= dataDescribed && utf8.ValidString(text) {
			parts = append(parts, strconv.Quote(text)) // kazoo's identifier, and Curator's
		}
		parts = append(parts, fmt.Sprintf("session 0x%x", uint64(c.Session)))
	}
	return strings.Join(parts, " ")
}

// printable returns text with a question mark for what cannot be printed, such as the control characters of a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// NewContender returns the contender whose node has that data and stat.
func NewContender(node string, data []byte, stat zk.Stat) Contender {
	_, k, _ := ParseName(zk.Base(node))
	return Contender{
		Node: node, Session: stat.EphemeralOwner, Token: stat.Czxid,
		Since: time.UnixMilli(stat.Ctime), Shared: k == Shared, Latch: k == Candidacy, Owner: ParseRecord(data).Owner, Data: data,
		Revoked: Revoked(data),
	}
}

// NewHolder is NewContender for one that is known to hold the lock.
func NewHolder(node string, data []byte, stat zk.Stat) Contender {
	c := NewContender(node, data, stat)
	c.Held = true
	return c
}
