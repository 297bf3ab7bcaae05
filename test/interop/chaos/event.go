package chaos

import "golang.org/x/sys/unix"

// An event is a line of what a client did. Times are those of the machine's monotonic clock, in
// nanoseconds.
type event struct {
	Kind  kind   `json:"k"`
	Key   string `json:"key,omitempty"`   // the lock
	Token int64  `json:"token,omitempty"` // with which it is held
	At    int64  `json:"at"`

	Call  int64  `json:"call,omitempty"`  // granted: when the lock was asked for
	Alive int64  `json:"alive,omitempty"` // read, write, alive, ended: when the hold was last known to be valid
	Value int64  `json:"value,omitempty"` // write: what is written; did: what was read; granted: the session timeout
	Base  int64  `json:"base,omitempty"`  // write: what had been read
	Stale bool   `json:"stale,omitempty"` // did: the register refused the token
	Lost  bool   `json:"lost,omitempty"`  // ended: not by a release
	Text  string `json:"text,omitempty"`  // failed: how; dialed: the server
}

// A kind says what an event is about.
type kind string

const (
	granted kind = "granted"
	alive   kind = "alive"
	read    kind = "read"  // the register is asked
	write   kind = "write" // the register is asked
	did     kind = "did"   // and has answered
	ended   kind = "ended"
	failed  kind = "failed" // a session or an acquire
	dialed  kind = "dialed" // a server
	bye     kind = "bye"    // the client has closed its session and ends
)

// now is the time of the machine's monotonic clock, which all processes share.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is no Linux without it
	}
	return ts.Nano()
}
