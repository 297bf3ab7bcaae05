package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/serverlist"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// connect goes through the servers until one takes the session. It returns nil, nil when the session has been ended
// meanwhile, and an error when it is over by what a server said.
func (s *Session) connect() (*conn, *SessionError) {
	var r refusals
	tried := 0
	for {
		if s.next == 0 { // a round begins
			if !ending.Pause(s.ctx, s.opt.backoff(s.rounds)) {
				return nil, nil
			}
			s.rounds++
		}
		srv := s.servers[s.next]
		s.next = (s.next + 1) % len(s.servers)
		nc, resp, asked, err := s.attempt(srv, s.lastZxid())
		if err == nil {
			return s.adopt(srv, nc, resp, asked)
		}
		if s.ctx.Err() != nil {
			s.noteAttempt(srv.String(), errUnanswered)
			return nil, nil
		}
		s.noteAttempt(srv.String(), err)
		s.log(slog.LevelDebug, "zookeeper connect", "server", srv.String(), "error", err)
		tried++
		if tried == len(s.servers) {
			s.log(slog.LevelWarn, "zookeeper session: no server can be reached", "session", s.String(), "servers", describeAttempts(s.attempts()))
		}
		if over := s.judge(&r, srv, err); over != nil {
			return nil, over
		}
	}
}

// refusals are hang-ups during the handshake, with no other outcome of an attempt between them.
type refusals struct {
	count   int
	since   time.Time // of the first one
	serving int       // how many times a server that was asked about it has turned out to serve others
}

// judge looks at a failed attempt, and says whether it means that the session is over.
//
// A server that has lost its data refuses, without a word, a session that has seen more than the server has. So does a server
// without a leader, which may have one again. Once all servers have done nothing else for longer than the session could live,
// the client asks each as a session that has seen nothing. A server without a leader leaves that without an answer too.
func (s *Session) judge(r *refusals, srv serverlist.Server, err error) *SessionError {
	if !errors.Is(err, errBehind) || s.ID() == 0 {
		*r = refusals{}
		return nil
	}
	r.count++
	if r.count == 1 {
		r.since = time.Now()
	}
	if r.count < 2*len(s.servers) || time.Since(r.since) <= s.Timeout()*4/3 {
		return nil
	}
	nc, resp, _, err := s.attempt(srv, 0)
	if err != nil {
		return nil
	}
	hangUp(nc)
	knows := resp.Timeout > 0 && resp.SessionID == s.ID()
	// One that serves and knows the session may have begun to serve this moment. Then it, or another one, takes it the next time.
	r.serving++
	if knows && r.serving <= len(s.servers) {
		return nil
	}
	return &SessionError{ID: s.ID(), Err: zk.ErrSessionExpired, presumed: true,
		Detail: "every server refuses it: they are behind what this session has seen"}
}

// goodAfter is how long a connection must have lasted to count as good.
const goodAfter = time.Second

// backoff returns how long to pause before a round through the servers, after so many in vain: not at all before the first, then
// BackoffMin, doubling up to BackoffMax, each shortened by a random part of up to a half so that clients do not march in step. Only a
// connection that proved good starts the count again: a server that accepts and hangs up at once is no better than one that refuses.
func (o *Options) backoff(rounds int) time.Duration {
	if rounds == 0 {
		return 0
	}
	d := o.BackoffMax
	if o.BackoffMin <= d>>(rounds-1) { // or it could overflow
		d = o.BackoffMin << (rounds - 1)
	}
	return d - rand.N(d/2+1)
}

func (s *Session) lastZxid() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.lastZxid
}

// attempt connects to one server and shakes hands with it as a session that has seen lastZxid. asked is when the request left.
func (s *Session) attempt(srv serverlist.Server, lastZxid int64) (_ net.Conn, _ *wire.ConnectResponse, asked clock.Instant, err error) {
	// A server that is starting may take a connection and never answer on it: by default, no session expires during one such attempt.
	share := cmp.Or(s.Timeout(), s.opt.SessionTimeout) / time.Duration(max(len(s.servers), 3))
	timeout := cmp.Or(s.opt.ConnectTimeout, max(share, time.Millisecond))
	ctx, cancel := context.WithTimeoutCause(s.ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	nc, err := s.dial(ctx, srv)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) }) // a blocked Read listens to nothing else
		asked = s.opt.clock.Now()
		var resp *wire.ConnectResponse
		resp, err = s.handshake(nc, lastZxid)
		inTime := stop()
		if inTime && err == nil {
			return nc, resp, asked, nil
		}
		hangUp(nc)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, nil, asked, err
}

func (s *Session) dial(ctx context.Context, srv serverlist.Server) (net.Conn, error) {
	nc, err := s.opt.Dial(ctx, srv.Network, srv.Address)
	if err != nil || s.opt.TLS == nil || srv.Network == "unix" {
		return nc, err
	}
	cfg := s.opt.TLS.Clone()
	cfg.ServerName = cmp.Or(cfg.ServerName, srv.Host)
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		var network *net.OpError
		if errors.As(err, new(tls.RecordHeaderError)) || errors.Is(err, io.EOF) || errors.As(err, &network) && network.Op == "read" {
			return nil, fmt.Errorf("TLS: %w (is this the server's port for TLS?)", err)
		}
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return tc, nil
}

// connectBytesMax is more than a ConnectResponse ever takes.
const connectBytesMax = 1 << 10

// handshake exchanges the first frames.
func (s *Session) handshake(nc net.Conn, lastZxid int64) (*wire.ConnectResponse, error) {
	req := wire.ConnectRequest{
		LastZxid: lastZxid, Timeout: int32(s.opt.SessionTimeout.Milliseconds()),
		SessionID: s.ID(), Password: s.password, HasReadOnly: true,
	}
	if err := wire.WriteRecord(nc, &req); err != nil {
		return nil, err
	}
	frame, err := wire.ReadFrame(nc, nil, connectBytesMax)
	var size *wire.FrameSizeError
	switch {
	case errors.Is(err, io.EOF):
		return nil, errBehind
	case errors.As(err, &size):
		head := binary.BigEndian.AppendUint32(nil, uint32(size.Length)) // the length was these bytes
		// Some servers answer a client without TLS with an alert of TLS, which begins with its type and version.
		if bytes.HasPrefix(head, []byte{21, 3}) {
			return nil, errors.New("handshake: the server wants TLS")
		}
		return nil, fmt.Errorf("handshake: answer is not ZooKeeper's: it begins with %q", head)
	case err != nil:
		return nil, fmt.Errorf("handshake: %w", err)
	}
	var resp wire.ConnectResponse
	if err := wire.Unmarshal(frame, &resp); err != nil {
		return nil, fmt.Errorf("handshake: answer is not ZooKeeper's: %w", err)
	}
	return &resp, nil
}

// adopt makes nc the session's connection if the answer lets it. An answer for another session than ours says that ours is over,
// whatever else it offers (ClickHouse 116690: a server answered a resume with a fresh session). It returns what connect does.
func (s *Session) adopt(srv serverlist.Server, nc net.Conn, resp *wire.ConnectResponse, asked clock.Instant) (*conn, *SessionError) {
	refuse := func(code zk.Code, detail string) *SessionError {
		hangUp(nc)
		s.noteAttempt(srv.String(), errors.New(detail)) // not zk.ErrClosed, which is a Keeper's own end
		return &SessionError{ID: s.ID(), Err: code, Detail: detail}
	}
	granted := time.Duration(resp.Timeout) * time.Millisecond
	switch {
	case s.ID() == 0 && (resp.Timeout <= 0 || resp.SessionID == 0):
		return nil, refuse(zk.ErrSessionExpired, fmt.Sprintf("%v gave no session", srv))
	case resp.Timeout <= 0:
		return nil, refuse(zk.ErrSessionExpired, fmt.Sprintf("%v no longer knows it", srv))
	case s.ID() != 0 && resp.SessionID != s.ID():
		return nil, refuse(zk.ErrSessionExpired, fmt.Sprintf("%v answered with another session, %s", srv, idText(resp.SessionID)))
	case s.opt.SessionTimeoutMin > 0 && granted < s.opt.SessionTimeoutMin:
		return nil, refuse(zk.ErrClosed, fmt.Sprintf("%v grants a timeout of %v, at least %v is required", srv, granted, s.opt.SessionTimeoutMin))
	case s.opt.SessionTimeoutMax > 0 && granted > s.opt.SessionTimeoutMax:
		return nil, refuse(zk.ErrClosed, fmt.Sprintf("%v grants a timeout of %v, at most %v is allowed", srv, granted, s.opt.SessionTimeoutMax))
	}

	s.mu.Lock()
	if s.mu.over != nil {
		s.mu.Unlock()
		hangUp(nc)
		s.noteAttempt(srv.String(), errUnanswered)
		return nil, nil
	}
	resuming := s.mu.id != 0
	s.mu.id, s.password = resp.SessionID, resp.Password
	s.mu.timeout = min(granted, cmp.Or(s.mu.timeout, granted))
	c := s.newConnLocked(nc, srv, asked)
	c.resuming = resuming
	if !resuming {
		c.noteHandshakeLocked(provesWrite) // a quorum has agreed to it
	}
	s.mu.conn, s.mu.noConn = c, nil
	s.mu.queue = append(c.greetingLocked(), s.mu.queue...)
	s.setStateLocked(State{Phase: Connected, Server: srv.String(), Conn: c.number})
	s.mu.Unlock()
	s.noteAttempt(srv.String(), nil)
	s.warnOfTimeout(srv, granted)
	return c, nil
}

// noteHandshakeLocked renews the leases by the handshake, of which the leader has heard at once. It counts from when it was sent, for
// heartbeats too: a server may have taken most of the timeout for its answer. One that resumes the session counts only once a request
// behind it is answered. A server may greet a client that has yet to show its identities, a certificate or digests, and until then it
// neither renews the session nor answers anything but credentials. The first heartbeat leaves at once.
func (c *conn) noteHandshakeLocked(proves strength) {
	c.s.renewLeasesLocked(proves, c.asked, c.s.opt.clock.Now(), c.s.mu.history.Restart(c.asked))
	c.noteBeatLocked(proves, c.asked)
}

// greetingLocked returns what goes ahead of everything else on a new connection: the credentials, then the watches of the last one.
//
// A server takes a session that has seen no newer transaction than it has itself, and learns that from the handshake. It does
// not learn there what the session has seen in an event only. An event is not counted in lastZxid, because several events
// belong to one transaction and the connection may break between them. So a transaction comes first after an event that no answer
// has followed: without it, reads on a server that lags would be older than what the event told. A sync is not enough if that server
// is the leader, which answers one before it has applied what it has committed.
func (c *conn) greetingLocked() []*call {
	var calls []*call
	for _, a := range c.s.mu.auth {
		calls = append(calls, greet(a))
	}
	if c.s.mu.ahead {
		calls = append(calls, ownCall(wire.OpMulti, "await writes", "/", noChange))
	}
	return append(calls, c.s.watches.rearm(c.number, c.s.mu.lastZxid, min(rearmBytesMax, c.s.opt.RequestBytesMax/2))...)
}

// greet returns the request that shows a credential.
func greet(a Auth) *call {
	return ownCall(wire.OpAuth, "auth", a.Scheme, &wire.AuthRequest{Scheme: a.Scheme, Auth: a.Credential})
}

// warnOfTimeout logs that a server has granted another session timeout than was asked for, or than the session had so far.
func (s *Session) warnOfTimeout(srv serverlist.Server, granted time.Duration) {
	if expected := cmp.Or(s.granted, s.opt.SessionTimeout); granted != expected {
		s.log(slog.LevelWarn, "another session timeout is granted than was asked for, or than before; the least that was granted counts (see the server's minSessionTimeout and maxSessionTimeout)",
			"session", s.String(), "server", srv.String(), "asked", s.opt.SessionTimeout, "before", s.granted, "granted", granted, "counts", s.Timeout())
	}
	s.granted = granted
}

// noteAttempt tells what came of an attempt to connect, and notes a failed one in place of the last one at the same server.
func (s *Session) noteAttempt(server string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if told := s.opt.Trace.Attempt; told != nil && err != errUnanswered { // that one was broken off by the session's end
		s.traceLocked(func() { told(server, err) })
	}
	if s.mu.noConn == nil { // the server has taken the session
		return
	}
	cut := &disconnection{OpenError{Err: s.mu.noConn.Err, Attempts: slices.Clone(s.mu.noConn.Attempts)}}
	i := slices.IndexFunc(cut.Attempts, func(a Attempt) bool { return a.Server == server })
	switch {
	case i < 0:
		cut.Attempts = append(cut.Attempts, Attempt{server, err})
	case err != errUnanswered: // what came of an earlier one says more
		cut.Attempts[i].Err = err
	}
	s.mu.noConn = cut
	if s.mu.state.Phase == Disconnected {
		s.mu.state.Cause = cut
		close(s.mu.changed)
		s.mu.changed = make(chan struct{})
	}
}

// attempts returns what came of the last attempt at each server since there is no connection; nothing if there is one.
func (s *Session) attempts() []Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.noConn == nil {
		return nil
	}
	return s.mu.noConn.Attempts
}

// cutOff adds to err, by which something has ended, why there is no connection, if there is none.
func (s *Session) cutOff(err error) error {
	s.mu.Lock()
	why := s.mu.noConn
	s.mu.Unlock()
	if why != nil {
		err = ending.CutOff(err, why) // which calls methods of err, and these may be the user's
	}
	return err
}
