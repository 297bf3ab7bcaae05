package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/serverlist"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Session is one session with a ZooKeeper ensemble, from its first connection to its end. It is safe for use by many goroutines.
type Session struct {
	// Fixed by Open.
	opt     Options
	chroot  string              // "" or "/a/b"
	servers []serverlist.Server // in an order of its own, so that the clients of an ensemble spread over it
	traces  chan func()         // calls of opt.Trace and opt.Logger that wait; closed by run, after which there are none

	wake      chan struct{}      // callers → writer: the queue or the demand has changed, or it may send; one token is enough
	cancel    context.CancelFunc // ends run
	ctx       context.Context    // of run and of everything that belongs to the session
	wg        sync.WaitGroup     // run and what Go started
	watchdogs sync.WaitGroup     // those of wg that end holds, which Close waits for before it asks the ensemble

	final  context.Context // ends when the state becomes final, with its cause
	finish context.CancelCauseFunc

	tellers sync.WaitGroup // what calls functions of the user's: those in traces, and those that are told of losses, which goroutines of wg begin

	// Owned by run.
	password []byte
	granted  time.Duration // session timeout in the last handshake; 0 before the first
	next     int           // which of servers is tried next: round after round
	rounds   int           // through servers, in vain

	// watches has no lock of its own: its methods are called with mu held.
	watches watches

	// mu is never held across I/O or a call of the user's.
	mu struct {
		sync.Mutex
		id       int64         // 0 until established
		timeout  time.Duration // the least that was granted
		state    State
		changed  chan struct{}  // closed when state is replaced
		noConn   *disconnection // why there is no connection; nil while there is one
		over     *SessionError  // why nothing goes on any more; nil while the session lives, and while Close asks the ensemble to end it
		closed   bool           // the ensemble has answered that the session is closed
		conn     *conn          // the present connection, if one is established
		xid      int32          // of the last request, on whichever connection
		lastZxid int64          // newest transaction seen in an answer to a caller: of all up to it, the watches have told
		ahead    bool           // an event has come that is newer than lastZxid, or may be
		auth     []Auth         // sent on each connection

		queue    []*call         // not sent yet, in order
		inFlight int             // calls queued or sent that count against InFlightMax
		roomLine []chan struct{} // of the callers that wait for room, the first one first; each holds one token: look again

		dependents int // how many wait for answers and events and do not read: goroutines, and requests of the session's own

		demand  [strengths]int          // how often heartbeats are asked for, by what they need
		history lease.History           // of answered requests
		leases  [strengths]sessionLease // by what their proofs have
		stats   Stats
	}
}

// Open establishes a session with the ensemble of a server list, "host:port,host:port/chroot" or "unix:/path/of/socket". A chroot is
// not made: as long as there is none, what is asked for below it is not there either. Open returns when the session is established, and
// goes on looking for a server until then. If ctx ends first, the error is an *OpenError that says what became of the attempt at each
// server; if it never ends, only Options.Logger hears of that. ctx bounds the opening only: the session lives until Close or expiry.
func Open(ctx context.Context, servers string, opt Options) (*Session, error) {
	_ = ctx.Err() // a nil context panics before anything has begun
	s, err := begin(servers, opt)
	if err != nil {
		return nil, err
	}
	if err := s.awaitOpen(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// begin makes a session that looks for a server.
func begin(servers string, opt Options) (*Session, error) {
	list, chroot, err := serverlist.Parse(servers)
	if err != nil {
		return nil, fmt.Errorf("server list %q: %w", servers, err)
	}
	if opt, err = opt.withDefaults(); err != nil {
		return nil, err
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	s := &Session{
		opt: opt, chroot: chroot, servers: list, password: make([]byte, 16),
		wake: make(chan struct{}, 1), traces: make(chan func(), traceQueueMax),
	}
	s.watches = watches{s: s, spots: map[watchKey]*watchSpot{}, persistent: map[watchKey][]*PersistentWatch{}}
	s.tellers.Go(func() {
		for f := range s.traces {
			f()
		}
	})
	s.mu.changed = make(chan struct{})
	s.mu.state.Since, s.mu.noConn, s.mu.auth = time.Now(), &disconnection{}, slices.Clone(opt.Auth)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.final, s.finish = context.WithCancelCause(context.Background())
	s.wg.Go(s.run)
	return s, nil
}

// awaitOpen returns when the session is established. With an error, the session is over.
func (s *Session) awaitOpen(ctx context.Context) error {
	st, changed := s.State()
	if st.Phase == Connecting {
		select {
		case <-changed:
		case <-ctx.Done():
			s.end(&SessionError{ID: s.ID(), Err: zk.ErrClosed})
			s.wg.Wait()
			return s.openError(ctx)
		}
	}
	err := s.Err()
	if err != nil {
		s.wg.Wait()
	}
	return err
}

// openError says why there is no session although ctx has ended.
func (s *Session) openError(ctx context.Context) *OpenError {
	return &OpenError{Attempts: s.attempts(), Err: ending.Of(ctx)}
}

// ID returns the session's id, as ZooKeeper prints it in hexadecimal.
func (s *Session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.id
}

// Timeout returns the least session timeout that the ensemble has granted to this session. A reconnect may be granted more,
// but a new leader, or a server that is restarted, counts with the timeout of the session's creation.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.timeout
}

// Done is closed when the session is over: expired, refused its credentials, or closed. It is closed when Close begins, not when it
// returns, because from then on the ensemble may free what the session holds at any moment.
func (s *Session) Done() <-chan struct{} { return s.final.Done() }

// Err returns nil until Done is closed and then, for ever, a *SessionError that says why the session ended.
func (s *Session) Err() error { return context.Cause(s.final) }

// Stats count what a session has done since it was opened.
type Stats struct {
	Requests     uint64 // sent, heartbeats included
	Heartbeats   uint64 // of these, sent only to keep or prove the session
	Writes       uint64 // writes to connections; several requests may share one
	Replies      uint64
	Events       uint64 // of watches
	Connections  uint64 // established
	TraceDropped uint64
}

// Stats returns what the session has done so far.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stats
}

// String names the session as ZooKeeper's logs do.
func (s *Session) String() string { return idText(s.ID()) }

// idText names a session. The ids that servers with numbers from 128 on give are negative.
func idText(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// Go runs f on a goroutine that belongs to the session: its context ends when Done is closed, and Close
// waits for it. It reports false, and runs nothing, if the session is over. While Close asks the ensemble, f is still run.
func (s *Session) Go(f func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.over != nil {
		return false
	}
	s.wg.Go(func() { f(s.final) })
	return true
}

// run keeps the session: one connection after the other until the session is over.
func (s *Session) run() {
	defer close(s.traces)
	for s.ctx.Err() == nil {
		c, over := s.connect()
		if c == nil {
			s.end(over) // which does nothing if the session has been ended meanwhile
			return
		}
		began := time.Now()
		cause := c.serve(s.ctx)
		if time.Since(began) >= goodAfter {
			s.rounds = 0
		}
		if refused, ok := errors.AsType[*SessionError](cause); ok {
			s.end(refused)
			return
		}
		s.noteConnEnd(c, cause)
	}
}

// noteConnEnd deals with what the end of a connection leaves open.
func (s *Session) noteConnEnd(c *conn, cause error) {
	s.mu.Lock()
	if s.mu.over != nil {
		s.mu.Unlock()
		return
	}
	s.mu.conn, s.mu.noConn = nil, &disconnection{OpenError{Err: cause}}
	s.failAllLocked(&c.sent, zk.ErrConnectionLoss)
	// Of what is queued, the session's own requests made sense on this connection only: watches to be forgotten went with it,
	// and the greeting is made anew for the next.
	s.mu.queue = slices.DeleteFunc(s.mu.queue, func(k *call) bool { return k.own })
	s.setStateLocked(State{Phase: Disconnected, Conn: c.number, Cause: s.mu.noConn})
	s.mu.Unlock()
}

// end makes the session over, once, with a cause: every call is completed, every watch told.
func (s *Session) end(why *SessionError) {
	s.mu.Lock()
	if s.mu.over != nil {
		s.mu.Unlock()
		return
	}
	s.mu.over = why
	phases := map[error]Phase{zk.ErrSessionExpired: Expired, zk.ErrClosed: Closed, zk.ErrAuthFailed: AuthFailed}
	// First, because a call or a watch that hears of the end may ask Err.
	s.setStateLocked(State{Phase: phases[why.Err], Conn: s.mu.state.Conn, Cause: why})
	if c := s.mu.conn; c != nil {
		s.mu.conn = nil
		s.failAllLocked(&c.sent, why)
	}
	s.failAllLocked(&s.mu.queue, why)
	s.watches.end(why)
	s.mu.Unlock()
	s.cancel()
}
