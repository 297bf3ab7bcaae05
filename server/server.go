package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/watch"
)

// ErrClosed is what Serve returns after Close or Shutdown.
var ErrClosed = errors.New("server: closed")

// A Server answers clients on any number of listeners from one data directory. Its methods may be
// called from any goroutine.
type Server struct {
	// Fixed by Open.
	opts    Options
	log     *slog.Logger
	started time.Time
	store   *store.Store
	queue   *queue
	expiry  *expirer
	issuer  *session.Issuer // Next is guarded by sessions

	// state guards the tree and conn.fenced. Only the committer and detach lock it for
	// writing. Lock order: state, watchMu, sessions, conns, output.mu or queue.mu.
	state   sync.RWMutex
	tree    *tree.Tree
	watches *watch.Table
	watchMu sync.Mutex // guards watches

	// listing is locked, before state, while all watches, ephemerals or connections are listed: several at once would keep the committer
	// from the state for as long as all of them together take.
	listing  sync.Mutex
	wordTurn chan struct{} // holds a value while the answer to a four-letter word is made

	sessions struct {
		sync.Mutex
		table *session.Table
	}

	conns struct {
		sync.Mutex
		byID        map[uint64]*conn
		perAddress  map[string]int
		listeners   map[net.Listener]struct{}
		lastID      uint64
		idleSince   time.Time
		idleChanged chan struct{} // closed and replaced when the first connection comes or the last goes
		closed      bool          // no more connections
		running     sync.WaitGroup
	}

	throttle throttle
	answers  *budget
	large    chan struct{} // holds a value while something is carried out in pieces, or a large request decoded
	gate     *gate
	frames   *budget      // for requests that are being read
	places   int          // connections that the process's descriptors allow; 0 if that is not known
	lastZxid atomic.Int64 // the tree's, stored when the transaction's events are queued; readable without a lock

	greedyLog logLimiter // of connections closed because they take no answers
	quotaLog  logLimiter // of limits reached
	floodLog  logLimiter // of connections refused
	tlsLog    logLimiter // of handshakes that failed
	authLog   logLimiter // of credentials refused
	aheadLog  logLimiter // of clients that have seen more than the server has

	// Owned by the committer.
	draft         *tree.Draft
	lastPlaced    int64 // zxid
	batchTime     int64 // milliseconds since 1970
	placed        tree.Request
	records       []store.Record
	outcome       tree.Outcome
	deliveries    []watch.Delivery
	dirty         []*conn
	handedOver    string // the znode that the batch has last deleted while another connection had a one-shot watch on it
	audit         audit
	failed        bool
	sinceSnapshot int // transactions
	snapshotAt    due

	// inlineSession is the session whose connection's reader is the committer, and therefore does not read what its
	// client sends; 0 if there is none.
	inlineSession atomic.Int64

	counters     counters
	committing   atomic.Int64                  // when the batch that is being committed began, on the server's clock; 0 if none is
	lastSnapshot atomic.Pointer[savedSnapshot] // nil: the one that was recovered
	digests      digestLog

	// The end. ending is closed first, with err set; done when all is over, with filesErr set.
	ctx          context.Context // of the helpers
	cancel       context.CancelFunc
	helpers      sync.WaitGroup // expirer and reaper
	snapshots    sync.WaitGroup
	snapshotting atomic.Bool
	committed    chan struct{} // closed when the commit loop is over
	once         sync.Once
	err          error
	filesErr     error // of closing the files; nil if there was another reason to end
	ending       chan struct{}
	done         chan struct{}
}

// randomNumber returns a number that no client can guess.
func randomNumber() uint64 {
	var random [8]byte
	rand.Read(random[:]) // never fails, by its documentation
	return binary.BigEndian.Uint64(random[:])
}

// Open recovers the state from opts.DataDir, which it creates if it is not there, and starts the
// server: sessions that were open have their full timeout from now on. Clients come with Serve.
func Open(opts Options) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, log: opts.Logger,
		queue: newQueue(), expiry: newExpirer(), watches: watch.NewTable(randomNumber()),
		committed: make(chan struct{}), ending: make(chan struct{}), done: make(chan struct{}),
	}
	s.large, s.wordTurn = make(chan struct{}, 1), make(chan struct{}, 1)
	s.audit.off, s.audit.tokens = opts.NoAudit, auditBurst
	s.gate = newGate(opts.ConnectRateMax, opts.HandshakeTimeout/2)
	s.frames = newBudget(int64(opts.LargeRequestBytesMax))
	s.places = descriptorPlaces()
	s.answers = newBudget(int64(opts.AnswerBytesMax))
	s.throttle.requestsMax, s.throttle.bytesMax = int64(opts.OutstandingAllMax), outstandingBytesAll
	s.sessions.table = session.NewTable(opts.TickTime)
	s.conns.byID = make(map[uint64]*conn)
	s.conns.perAddress = make(map[string]int)
	s.conns.listeners = make(map[net.Listener]struct{})
	s.conns.idleChanged = make(chan struct{})
	if err := s.load(); err != nil {
		return nil, err
	}
	secret, err := s.loadSecret()
	if err != nil {
		s.store.Close()
		return nil, fmt.Errorf("server: %w", err)
	}
	s.lastZxid.Store(s.tree.LastZxid())
	s.started = time.Now() // what was read may have taken longer than a session's timeout
	first := session.ApacheFirst(opts.wall().UnixMilli())
	if !opts.ApachePasswords {
		first = randomNumber() // the clock may say the same as at an earlier start
	}
	s.issuer = session.NewIssuer(secret, opts.ApachePasswords, first)
	s.conns.idleSince = s.started
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.helpers.Go(s.expireSessions)
	s.helpers.Go(s.reap)
	go func() {
		defer close(s.committed)
		s.commitLoop()
	}()
	go s.end()
	return s, nil
}

// now is the server's clock: the time since it was opened.
func (s *Server) now() time.Duration { return time.Since(s.started) }

// Zxid returns the last transaction.
func (s *Server) Zxid() int64 {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.tree.LastZxid()
}

// lateMax is how long Shutdown waits for the end that it has brought about, once its context has ended.
const lateMax = time.Second

// Shutdown stops accepting, answers what has been received, hangs up and closes the data
// directory. When ctx ends first, the rest is done as Close does it, and ctx's error returned: after
// a second at the latest. What takes longer goes on, until Done is closed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopAccepting()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.conns.running.Wait()
	}()
	var err error
	select {
	case <-gone:
	case <-ctx.Done():
		err = fmt.Errorf("server: shutdown: %w", ctx.Err())
	}
	s.stop(ErrClosed)
	select {
	case <-s.done:
	case <-ctx.Done():
		select {
		case <-s.done:
		case <-time.After(lateMax):
			return fmt.Errorf("server: shutdown: %w", ctx.Err())
		}
	}
	<-gone
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return err
}

// Close hangs up at once and closes the data directory. Sessions live on: they have their full
// timeout when the server is opened again. When it returns, all goroutines of the server are over.
// The error is nil unless the disk failed, now or earlier.
func (s *Server) Close() error {
	s.stop(ErrClosed)
	<-s.done
	if err := s.Err(); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// stop begins the end of the server. The first reason is the one that counts.
func (s *Server) stop(reason error) {
	s.once.Do(func() {
		if !errors.Is(reason, ErrClosed) {
			s.log.Error("the server stops: nothing is acknowledged any more", "err", reason)
			reason = fmt.Errorf("server: %w", reason)
		}
		s.err = reason
		close(s.ending)
	})
}

// end takes the server apart, from the outside in, once there is a reason to.
func (s *Server) end() {
	defer close(s.done)
	<-s.ending
	s.stopAccepting()
	s.hangUp()
	s.conns.running.Wait()
	s.cancel()
	s.helpers.Wait()
	s.queue.close()
	<-s.committed
	s.snapshots.Wait()
	if err := s.store.Close(); err != nil && errors.Is(s.err, ErrClosed) {
		s.filesErr = fmt.Errorf("server: close %s: %w", s.opts.LogDir, err)
	}
}

// Done is closed when the server has ended, by Close, Shutdown or a failure.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the server has ended: nil until Done is closed, ErrClosed after Close or Shutdown, unless the disk failed
// then.
func (s *Server) Err() error {
	select {
	case <-s.done:
	default:
		return nil
	}
	if s.filesErr != nil {
		return s.filesErr
	}
	return s.err
}
