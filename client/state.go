package client

import (
	"fmt"
	"time"
)

// A Phase is what a session is doing.
type Phase int

// The phases. The last three are final.
const (
	Connecting   Phase = iota // there has been no session yet
	Connected                 // a server answers
	Disconnected              // looking for a server; the ensemble may still keep the session, or not
	Expired                   // the ensemble has ended the session
	Closed                    // ended on this side: by Close, by the context of Open, or because the granted timeout is out of bounds
	AuthFailed                // the ensemble refused the credentials
)

func (p Phase) String() string {
	names := [...]string{"connecting", "connected", "disconnected", "expired", "closed", "authentication failed"}
	if p < 0 || int(p) >= len(names) {
		return fmt.Sprintf("Phase(%d)", int(p))
	}
	return names[p]
}

// Final reports whether no other phase can follow.
func (p Phase) Final() bool { return p >= Expired }

// A State is what is true of a session at one moment.
type State struct {
	Phase  Phase
	Server string    // connected to, as configured; otherwise empty
	Conn   uint64    // number of the connection within the session, from 1; the last one while disconnected
	Since  time.Time // when the phase began
	Cause  error     // why the session is disconnected, failed attempts to connect included, or over; otherwise nil
}

// State returns the state of the session and a channel that is closed when that state has passed. The state is a level and
// not a queue of changes: nothing can overflow, a late look sees what is true, and no slow reader holds the session up.
func (s *Session) State() (State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state, s.mu.changed
}

// setStateLocked makes st the state, tells of it, and wakes all that wait for a change; a final state it leaves as it is.
func (s *Session) setStateLocked(st State) {
	if s.mu.state.Phase.Final() {
		return
	}
	st.Since = time.Now()
	s.mu.state = st
	if st.Phase.Final() {
		if s.mu.conn != nil {
			s.mu.conn.interruptLocked()
		}
		for i, l := range s.mu.leases {
			s.mu.leases[i] = sessionLease{number: l.number}
		}
		s.finish(st.Cause) // before anything else tells of it: a caller that hears of the end may call Err
	}
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
	if told := s.opt.Trace.State; told != nil {
		s.traceLocked(func() { told(st) })
	}
	if s.mu.id == 0 { // there never was one, as the error of Open says
		return
	}
	attrs := []any{"session", idText(s.mu.id), "state", st.Phase.String()}
	if st.Phase == Connected {
		attrs = append(attrs, "server", st.Server, "timeout", s.mu.timeout)
	}
	if st.Cause != nil {
		attrs = append(attrs, "cause", st.Cause)
	}
	s.traceLocked(func() { s.opt.Logger.Info("zookeeper session", attrs...) })
}
