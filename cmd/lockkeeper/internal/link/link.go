// Package link is what the three processes of a running lock say to each other.
//
// The front, which the user has started, owns the terminal and decides; the engine owns the session and
// the lock; the guard is the child's parent. Engine and guard are processes of the same program, started
// by the front. Between them are
//
//   - pipes with one JSON object a line, for what happens: Order and Note between front and engine, Task
//     and Event between front and guard. The end of a stream means that the other process is dead,
//     however it died;
//   - a pipe each way between engine and guard, for what concerns them when the front does nothing: see
//     GuardFDs;
//   - a Cell, a word of shared memory that always holds the latest deadline of the lock. A stream of
//     deadlines would have to be read: a front that was stopped for an hour would act on the oldest
//     of them, and an engine would in time block on a front that does not read. A word of memory has
//     neither problem, and front and guard sleep while nothing happens.
//
// The engine inherits its ends at the descriptors that begin with FDOrders.
package link

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// The engine's descriptors.
const (
	FDOrders = 3 // read
	FDNotes  = 4 // written
	FDCell   = 5

	FDSwept   = 6 // read; see GuardFDs
	FDCondemn = 7 // written
)

// Limits of one message. The longest orders have a long label, or many long names. What a note says about them, such as the
// znodes of the holds, takes more, and has to get through: the front waits for it.
const (
	orderBytesMax = 256 << 10
	lineBytesMax  = 4 << 20
)

// An Order is what the front tells the engine.
type Order struct {
	Do string `json:"do"` // one of the Do constants

	Open *Open `json:"open,omitempty"` // for DoOpen

	// For DoStarted: the process group that works under the lock, and the process that guards it.
	Group int `json:"group,omitempty"`
	Guard int `json:"guard,omitempty"`
}

// The orders.
const (
	DoOpen    = "open"    // first: get this lock
	DoStarted = "started" // the child runs, its group is Group, its parent Guard
	DoRelease = "release" // the last process of the child is gone: give the lock back and end
	DoCancel  = "cancel"  // leave the line, or give back the lock under which nothing was started
)

// Open says which lock is wanted and how.
type Open struct {
	Access access.Settings `json:"access"` // how to get to the servers

	Lock           string        `json:"lock"`                // path of the znode
	Also           []string      `json:"also,omitempty"`      // paths of others that are to be held together with it
	Slots          int           `json:"slots,omitempty"`     // each is one of so many permits; 0 is a lock
	Shared         bool          `json:"shared,omitempty"`    // the read side of a read/write lock
	Exclusive      bool          `json:"exclusive,omitempty"` // its write side
	Election       *Election     `json:"election,omitempty"`  // the lock is leadership
	PID            int           `json:"pid"`                 // the process that waits or holds, as others see it
	User           string        `json:"user,omitempty"`      // that it belongs to, likewise
	SessionTimeout time.Duration `json:"session_timeout"`
	ConnectTimeout time.Duration `json:"connect_timeout"`
	Wait           time.Duration `json:"wait"`             // WaitForEver, 0 for one try, or a limit
	Grace          time.Duration `json:"grace"`            // GraceAuto or what was asked for
	Vouch          string        `json:"vouch"`            // ping, sync or write
	Label          string        `json:"label,omitempty"`  // shown by lockkeeper locks
	Report         bool          `json:"report,omitempty"` // tell about the place in line

	// Claims are the znodes of all that is held by runs under which this one was started, newest first.
	Claims []string `json:"claims,omitempty"`

	// Watched is a process that works under the lock besides the child; with the Pid 0 there is none.
	Watched proc.Process `json:"watched,omitzero"`
}

// Election says how the candidate is called.
type Election struct {
	ID   string `json:"id,omitempty"`
	Only bool   `json:"only,omitempty"` // say nothing but the ID
}

// WaitForEver is a wait without limit, GraceAuto a grace that follows the session timeout.
const (
	WaitForEver time.Duration = -1
	GraceAuto   time.Duration = -1
)

// A Note is what the engine tells the front.
type Note struct {
	Is string `json:"is"` // one of the Is constants

	// For IsWaiting: how many stand in front of us, which one is first, and the id of that candidate in an election.
	Ahead  int    `json:"ahead,omitempty"`
	Holder string `json:"holder,omitempty"`
	ID     string `json:"id,omitempty"`

	// For IsGranted: the fencing token, those of Open.Also in its order, the znodes of the holds, the session timeout
	// that was granted and the addresses of the servers, as the child may use them.
	Token   int64         `json:"token,omitempty"`
	Tokens  []int64       `json:"tokens,omitempty"`
	Claims  []string      `json:"claims,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Servers string        `json:"servers,omitempty"`

	// For IsLost: Gone says that the lock may already be another's.
	Gone bool `json:"gone,omitempty"`

	// For IsLost, IsFailed, IsBusy and IsNotice: what to tell the user; for IsFailed with which status to end. For
	// IsCutOff: why no server is heard, empty when one is again.
	Text   string `json:"text,omitempty"`
	Status int    `json:"status,omitempty"`
}

// What an engine can report. After IsBusy, IsFailed and IsReleased it ends.
const (
	IsNotice   = "notice"   // a line for the user
	IsWaiting  = "waiting"  // in line
	IsGranted  = "granted"  // the lock is ours until the deadline in the cell
	IsRevoked  = "revoked"  // the lock is asked for; it is held until it is released
	IsCutOff   = "cut off"  // why the session has no connection, in line or while the lock is ours, has changed
	IsLost     = "lost"     // the lock cannot be vouched for any more
	IsBusy     = "busy"     // not got within the wait
	IsFailed   = "failed"   // not got for another reason
	IsReleased = "released" // given back; Text is set if that could not be made sure
)

// A Writer writes messages, one a line. It may be used by several goroutines.
type Writer struct {
	mu sync.Mutex // held across a write: lines must not mix, and the pipe is the only thing waited for
	w  io.Writer
}

// ErrTooLong says that a message was not sent because it is too long.
var ErrTooLong = errors.New("more than fits into a message")

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Send writes one message.
func (w *Writer) Send(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	limit := lineBytesMax
	if _, isOrder := message.(Order); isOrder {
		limit = orderBytesMax
	}
	if len(line) >= limit {
		return ErrTooLong
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.w.Write(append(line, '\n'))
	return err
}

// Receive hands every message that arrives to each, in order, until the stream ends. The error is
// nil if it ended because the other side is gone.
func Receive[M any](r io.Reader, each func(M)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		var m M
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("message %q: %w", lines.Text(), err)
		}
		each(m)
	}
	return lines.Err()
}

// The variables that tell the child what it holds.
const (
	lockVariable  = "LOCKKEEPER_LOCK"
	TokenVariable = "LOCKKEEPER_TOKEN"
	underVariable = "LOCKKEEPER_UNDER"
	GraceVariable = "LOCKKEEPER_GRACE" // time from TERM to KILL
)

// claimsMax is how many claims are passed on: those of one run, or of nearly as many as a waiter can name.
const claimsMax = 100

// LockEnv returns the variables that tell the child about its lock, or its locks, one a line in the order in
// which they were asked for: a path has no line breaks. Together they are unlike those of any other hold, so
// they also mark what the child has started.
func LockEnv(o Open, granted Note) []string {
	token := strconv.FormatInt(granted.Token, 10)
	for _, t := range granted.Tokens {
		token += "\n" + strconv.FormatInt(t, 10)
	}
	claims := append(slices.Clone(granted.Claims), o.Claims...)
	return []string{
		lockVariable + "=" + strings.Join(append([]string{o.Lock}, o.Also...), "\n"),
		TokenVariable + "=" + token,
		underVariable + "=" + strings.Join(claims[:min(len(claims), claimsMax)], "\n"),
		"LOCKKEEPER_SERVERS=" + granted.Servers,
	}
}

// ClaimsOf returns the znodes that the variables of LockEnv tell of.
func ClaimsOf(getenv func(string) string) []string {
	return strings.FieldsFunc(getenv(underVariable), func(r rune) bool { return r == '\n' })
}
