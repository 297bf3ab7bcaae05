package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// Options configure a session. The zero value of every field means its default.
type Options struct {
	// SessionTimeout is asked of the ensemble, which may grant less or more (Session.Timeout): how
	// long it keeps the session, and its ephemeral znodes, without hearing from us. Default 10 s.
	SessionTimeout time.Duration

	// SessionTimeoutMin and SessionTimeoutMax refuse a grant outside them: Open then fails, and at a reconnect the session ends with
	// zk.ErrClosed, while the ensemble keeps its ephemeral znodes for a session timeout. Default: any grant will do.
	SessionTimeoutMin, SessionTimeoutMax time.Duration

	// ConnectTimeout bounds one attempt to reach one server, handshake included. Default: the granted
	// session timeout divided by the number of servers, and at most a third of it; before the first grant, of SessionTimeout.
	ConnectTimeout time.Duration

	// BackoffMin and BackoffMax bound the pause between rounds through the server list. The pause doubles from one to the other
	// with jitter, and starts again only after a connection has proved good. Defaults 50 ms and 2 s.
	BackoffMin, BackoffMax time.Duration

	// CloseTimeout bounds how long Close waits for the server's answer, and Keeper.Close for Run, besides their contexts. Default 5 s.
	CloseTimeout time.Duration

	// Auth are credentials, sent on every connection before anything else. Servers answer them after the session is open: one that
	// they refuse ends the session then, with zk.ErrAuthFailed.
	Auth []Auth

	// TLS, if not nil, encrypts connections to TCP servers. The server's name is verified as it
	// stands in the server list, unless TLS.ServerName says otherwise. Client certificates go here; one that
	// replaces another while the session lives needs the same subject, or `lockkeeper server` refuses it the session.
	TLS *tls.Config

	// Dial makes the connections; default a net.Dialer. Names are passed unresolved, so that they are looked up again at
	// every attempt. Connections have to heed deadlines: a caller that is alone reads on its own goroutine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// RequestBytesMax is the largest request that is sent: a larger one fails at once, because
	// servers hang up on it without a word. Default 1,048,575, as servers have it.
	RequestBytesMax int

	// ReplyBytesMax is the largest answer that is read; a larger one fails its request and is
	// skipped. Default 64 MiB: servers limit what they receive, not what they send.
	ReplyBytesMax int

	// InFlightMax is how many requests may wait to be sent or for their answer. Further calls block until there is
	// room, or their context ends. Default 1,000.
	InFlightMax int

	// Logger gets one line for each change of the session's state, and one when every server has been tried in vain,
	// at the beginning or since the connection broke. It is called as the functions of Trace are, and may block. Default: silent.
	Logger *slog.Logger

	// Trace has functions to be called when something happens to the session.
	Trace Trace

	clock *clock.Clock // measures the age of heartbeats; nil: the machine's, suspended time included
}

// Auth is a credential: for the scheme "digest" it is "user:password".
type Auth struct {
	Scheme     string
	Credential []byte
}

// clone returns a credential that stays when the caller wipes its own.
func (a Auth) clone() Auth { return Auth{a.Scheme, bytes.Clone(a.Credential)} }

// A Trace is told what a session does. Every function may be nil. They and Options.Logger are called on a goroutine of their own, in
// order, so they may block and may use the session; while one blocks, up to 256 calls wait, and further ones are dropped
// (Stats.TraceDropped counts them). What must not be missed is in Session.State. The last of them may run after Close has returned.
type Trace struct {
	State   func(State)                    // the state has changed
	Attempt func(server string, err error) // an attempt to connect ended; nil: a session is established
}

// traceQueueMax is how many calls may wait behind one that blocks.
const traceQueueMax = 256

// log has a line written. It is for run, which ends before traces is closed.
func (s *Session) log(level slog.Level, line string, attrs ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traceLocked(func() { s.opt.Logger.Log(context.Background(), level, line, attrs...) })
}

// traceLocked has f, which calls what is the user's, run outside the goroutines that keep the session alive.
func (s *Session) traceLocked(f func()) {
	select {
	case s.traces <- f:
	default:
		s.mu.stats.TraceDropped++
	}
}

// messageBytesLeast leaves room for headers and whatever the session itself has to say.
const messageBytesLeast = 1 << 10

// fill sets an option that was left out, and refuses one that is too small.
func fill[T int | time.Duration](name string, option *T, value, least T) error {
	if *option == 0 {
		*option = value
	}
	if *option < least {
		return fmt.Errorf("client option %s: %v is below %v", name, *option, least)
	}
	return nil
}

// withDefaults fills in what was left out and refuses values that contradict each other.
func (o Options) withDefaults() (Options, error) {
	err := cmp.Or(
		fill("SessionTimeout", &o.SessionTimeout, 10*time.Second, time.Millisecond),
		fill("SessionTimeoutMin", &o.SessionTimeoutMin, 0, 0),
		fill("SessionTimeoutMax", &o.SessionTimeoutMax, 0, 0),
		fill("ConnectTimeout", &o.ConnectTimeout, 0, 0),
		fill("BackoffMin", &o.BackoffMin, 50*time.Millisecond, 0),
		fill("BackoffMax", &o.BackoffMax, 2*time.Second, 0),
		fill("CloseTimeout", &o.CloseTimeout, 5*time.Second, 0),
		fill("RequestBytesMax", &o.RequestBytesMax, wire.FrameBytesMax, messageBytesLeast),
		fill("ReplyBytesMax", &o.ReplyBytesMax, 64<<20, messageBytesLeast),
		fill("InFlightMax", &o.InFlightMax, 1000, 1),
	)
	switch {
	case err != nil:
		return o, err
	case o.SessionTimeout.Milliseconds() > 1<<31-1:
		return o, fmt.Errorf("client option SessionTimeout: %v is more than 2^31 ms", o.SessionTimeout)
	case o.SessionTimeoutMax > 0 && o.SessionTimeoutMax < o.SessionTimeoutMin:
		return o, fmt.Errorf("client options: SessionTimeoutMax %v is below SessionTimeoutMin %v", o.SessionTimeoutMax, o.SessionTimeoutMin)
	case o.BackoffMax < o.BackoffMin:
		return o, fmt.Errorf("client options: BackoffMax %v is below BackoffMin %v", o.BackoffMax, o.BackoffMin)
	}
	o.Auth = slices.Clone(o.Auth) // the caller may use its slices for something else
	for i, a := range o.Auth {
		o.Auth[i] = a.clone()
		if n := len(greet(a).frame) - 4; n > o.RequestBytesMax {
			return o, fmt.Errorf("client option Auth: credential of scheme %q: %w", a.Scheme, &SizeError{Bytes: int64(n), Max: o.RequestBytesMax})
		}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.clock = cmp.Or(o.clock, new(clock.System()))
	return o, nil
}
