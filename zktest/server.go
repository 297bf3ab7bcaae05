package zktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/server"
)

// Servers is what to say where code under test wants a server list and is given one of the package's
// dial functions. Those look at no address: any list will do, a chroot behind it included. This one
// fails at once should the dial function be forgotten, instead of reaching a server that was not meant.
const Servers = "127.0.0.1:1"

// Options configure a Server. The zero value of every field means its default.
type Options struct {
	// TickTime is the unit of time of sessions: they expire at multiples of it. Default 2 s, as most
	// ensembles have it. Tests in real time want less, such as 50 ms.
	TickTime time.Duration

	// SessionTimeoutMin and SessionTimeoutMax bound what clients are granted: a client that asks for less or
	// more gets the bound. Defaults 2 ticks and 20 ticks, as ensembles have them, but the latter no
	// less than 40 s: with a short tick, a client that asks for a long timeout shall not lose its
	// session because the machine was busy.
	SessionTimeoutMin, SessionTimeoutMax time.Duration

	// Logger hears of what an operator should know. New's default is the test's log, Start's silence.
	Logger *slog.Logger

	// Server, if not nil, changes what else there is to set, such as a super user, limits, or znodes
	// with a time to live. It is called at each start of the server; the tick and the data directories
	// are not for it to change.
	Server func(*server.Options)
}

// DefaultTickTime is the default of Options.TickTime.
const DefaultTickTime = 2 * time.Second

// A Server is a ZooKeeper server in the process, with the network that its clients reach it by. Its
// methods may be called from any goroutine.
type Server struct {
	// Fixed by Start.
	opt     Options
	network *memnet.Network

	// life holds one token, taken by the goroutine that starts the server or takes it down: not a
	// mutex, so that in a bubble a goroutine that waits for it counts as idle.
	life chan struct{}

	mu struct {
		sync.Mutex
		disk    *vfs.Mem
		server  *server.Server // the last one that ran
		running bool
		closed  bool
		err     error // what went wrong with the servers so far
		links   map[string]*Link
		labels  map[int64]string // link that a session was last seen on, by session
	}
	served sync.WaitGroup // the goroutine that accepts connections
}

// New starts a server for a test. It ends with the test, and everything that it started with it; what
// goes wrong with the server itself fails the test.
func New(t testing.TB, opt Options) *Server {
	t.Helper()
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := Start(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Start starts a server where there is no test to belong to: in an example, a benchmark's TestMain, a
// program for development. The caller closes it. The error says which option is wrong.
func Start(opt Options) (*Server, error) {
	if opt.TickTime == 0 {
		opt.TickTime = DefaultTickTime
	}
	if opt.SessionTimeoutMax == 0 {
		opt.SessionTimeoutMax = 20 * max(opt.TickTime, DefaultTickTime)
	}
	s := &Server{opt: opt, network: memnet.New(), life: make(chan struct{}, 1)}
	s.mu.disk = vfs.NewMem()
	s.mu.links = make(map[string]*Link)
	s.mu.labels = make(map[int64]string)
	if err := s.open(); err != nil {
		return nil, err
	}
	s.life <- struct{}{}
	return s, nil
}

// Close ends the server, all links and all their connections, and waits until nothing of them runs any
// more. Sessions that clients still have open are theirs to close, before or after. The error says
// what has gone wrong with the server since its start. Closing again does nothing and returns the same.
func (s *Server) Close() error {
	defer s.turn()()
	s.stop()
	s.mu.Lock()
	s.mu.closed = true
	links, err := slices.Collect(maps.Values(s.mu.links)), s.mu.err // a link that comes later is closed where it is made
	s.mu.Unlock()
	for _, l := range links {
		l.proxy.Close()
	}
	return err
}

// TickTime returns the server's tick. A session whose client falls silent expires at the first multiple of
// the tick, counted from the server's start, that is later than its timeout.
func (s *Server) TickTime() time.Duration { return s.opt.TickTime }

// Dial connects to the server in memory, through the link called "default", whatever the network and
// address. It has the shape of net.Dialer.DialContext: give it to client.Options.Dial.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.Link("").Dial(ctx, network, address)
}

// Addr returns a TCP address, host:port on the loopback interface, at which clients reach the server
// through the link called "default". See Link.Addr.
func (s *Server) Addr() string { return s.Link("").Addr() }

// Session opens a session through the link with the given label and closes it at the end of the test.
// Link.Open takes options and needs no test.
func (s *Server) Session(t testing.TB, label string) *client.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	session, err := s.Link(label).Open(ctx, client.Options{})
	if err != nil {
		t.Fatalf("zktest: session %s: %v", label, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		session.Close(ctx) // the test may have left it out of reach, or expired
	})
	return session
}

// Keeper opens a Keeper through the link with the given label and closes it at the end of the test. Heartbeats
// are measured by package time alone, as those of Link.Open are.
func (s *Server) Keeper(t testing.TB, label string) *client.Keeper {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	k, err := client.Keep(ctx, Servers, clock.With(client.Options{Dial: s.Link(label).Dial}, &clock.Clock{}))
	if err != nil {
		t.Fatalf("zktest: keeper %s: %v", label, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		k.Close(ctx)
	})
	return k
}

const (
	openTimeout  = 30 * time.Second // for a first connection in Session and Keeper
	closeTimeout = time.Second      // for the last answer to what they opened
)

// Expire ends the session with this id, as expiry does: all at once, its ephemeral znodes with it,
// without telling the client more than the end of its connection; a client that is not cut off learns
// the rest when it comes back. When it returns, the znodes are gone. It reports false if there is no such session, or the server is down. Link.Expire
// needs no id.
func (s *Server) Expire(id int64) bool {
	s.mu.Lock()
	running, srv := s.mu.running, s.mu.server
	s.mu.Unlock()
	return running && srv.ExpireSession(id)
}

// Stats says how the server is doing: how many sessions, connections and watches it has, and what it
// did since it was last started. While it is down, the numbers are those of its last moment.
func (s *Server) Stats() server.Stats {
	s.mu.Lock()
	srv := s.mu.server
	s.mu.Unlock()
	return srv.Stats()
}

// address is the server's on the network in memory.
const address = "zktest"

// turn waits until no other goroutine starts the server or takes it down, and returns what gives the turn on.
func (s *Server) turn() (done func()) {
	<-s.life
	return func() { s.life <- struct{}{} }
}

// open opens the server on its disk and has it accept connections. It takes a turn.
func (s *Server) open() error {
	o := server.Options{
		MinSessionTimeout: s.opt.SessionTimeoutMin, MaxSessionTimeout: s.opt.SessionTimeoutMax,
		ConnectionsPerAddressMax: -1,
		PreAllocBytes:            64 << 10, // all of it is memory
		Logger:                   s.opt.Logger,
	}
	if s.opt.Server != nil {
		s.opt.Server(&o)
	}
	s.mu.Lock()
	o = bridge.OnDisk(o, s.mu.disk)
	s.mu.Unlock()
	o.TickTime, o.DataDir, o.LogDir = s.opt.TickTime, dataDir, dataDir
	srv, err := server.Open(o)
	if err != nil {
		return fmt.Errorf("zktest: %w", err)
	}
	ln, err := s.network.Listen(address)
	if err != nil {
		return fmt.Errorf("zktest: %w", errors.Join(err, srv.Close()))
	}
	s.mu.Lock()
	s.mu.server, s.mu.running = srv, true
	s.mu.Unlock()
	s.served.Go(func() {
		if err := srv.Serve(ln); !errors.Is(err, server.ErrClosed) {
			s.failed(err)
		}
	})
	return nil
}

// stop ends the server, if it runs, and waits for its end. It takes a turn.
func (s *Server) stop() {
	s.mu.Lock()
	running, srv := s.mu.running, s.mu.server
	s.mu.running = false
	s.mu.Unlock()
	if !running {
		return
	}
	if err := srv.Close(); err != nil {
		s.failed(err)
	}
	s.served.Wait()
}

// failed keeps what went wrong for Close.
func (s *Server) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.err = errors.Join(s.mu.err, fmt.Errorf("zktest: %w", err))
}
