package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A spied notes which goroutines read and write a connection. It says of a deadline only what net.Error has for that.
type spied struct {
	net.Conn
	spy *spy
}

type spy struct {
	mu             sync.Mutex
	readBy, sentBy []string
}

func (c spied) Read(b []byte) (int, error) {
	c.spy.mu.Lock()
	c.spy.readBy = append(c.spy.readBy, goroutine())
	c.spy.mu.Unlock()
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = tooLate{}
	}
	return n, err
}

type tooLate struct{}

func (tooLate) Error() string   { return "too late" }
func (tooLate) Timeout() bool   { return true }
func (tooLate) Temporary() bool { return true }

func (c spied) Write(b []byte) (int, error) {
	c.spy.mu.Lock()
	c.spy.sentBy = append(c.spy.sentBy, goroutine())
	c.spy.mu.Unlock()
	return c.Conn.Write(b)
}

// goroutine returns a name of the goroutine that calls it.
func goroutine() string {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	return string(b[:bytes.IndexByte(b, '[')])
}

// dialer is the network's, with the spy between.
func (y *spy) dialer(n *memnet.Network) func(context.Context, string, string) (net.Conn, error) {
	dial := n.Dialer("client")
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		return spied{nc, y}, err
	}
}

// since returns which goroutines have read and written since the last call.
func (y *spy) since() (readBy, sentBy []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	readBy, sentBy = y.readBy, y.sentBy
	y.readBy, y.sentBy = nil, nil
	return readBy, sentBy
}

// alone has the session's reader rest: one goroutine does one request after the other.
func alone(t *testing.T, s *client.Session) {
	t.Helper()
	for range 8 {
		_, _, err := s.Get(t.Context(), "/a")
		must(t, err)
		synctest.Wait() // the reader sees that nothing else is on its way
	}
}

// slow answers reads of /slow when it is told to, and all else at once.
func slow(goOn <-chan struct{}) func(*peer) {
	return func(p *peer) {
		if p.open() {
			p.serve(func(h heard) bool {
				var q wire.WatchRequest
				if h.Op == wire.OpGetData && wire.Unmarshal(h.Body, &q) == nil && q.Path == "/slow" {
					<-goOn
				}
				return false
			})
		}
	}
}

func only(who []string, want string) bool {
	return len(who) > 0 && !slices.ContainsFunc(who, func(w string) bool { return w != want })
}

// One goroutine that does one request after the other reads by itself: no other has to be woken. After a while the
// connection's reader reads again. It does not write to a connection that could block it.
func TestACallerThatIsAloneReads(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		var y spy
		s := open(t, n, fakeAddr, client.Options{Dial: y.dialer(n)})
		alone(t, s)
		y.since()
		for range 3 {
			_, _, err := s.Get(t.Context(), "/a")
			must(t, err)
		}
		if readBy, sentBy := y.since(); !only(readBy, goroutine()) || slices.Contains(sentBy, goroutine()) {
			t.Errorf("read by %q and written by %q, want read by %q alone and written by others", readBy, sentBy, goroutine())
		}
		time.Sleep(time.Second)
		if readBy, _ := y.since(); len(readBy) == 0 || slices.Contains(readBy, goroutine()) {
			t.Errorf("afterwards read by %q, want another goroutine than %q", readBy, goroutine())
		}
	})
}

// The end of a context ends the wait of a caller that reads, at once; what becomes of the request can be learned later.
func TestTheEndOfAContextEndsTheWaitOfWhoReads(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		goOn := make(chan struct{})
		serveFake(t, n, fakeAddr, slow(goOn))
		var y spy
		s := open(t, n, fakeAddr, client.Options{Dial: y.dialer(n)})
		alone(t, s)
		y.since()
		p := s.Pipeline()
		got := p.Get("/slow")
		p.Send(t.Context())
		began := time.Now()
		_, err := got.Wait(short(t, time.Second))
		wantErr(t, "wait", err, context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the wait took %v, want 1s", took)
		}
		if readBy, _ := y.since(); !slices.Contains(readBy, goroutine()) {
			t.Errorf("read by %q, want %q among them", readBy, goroutine())
		}
		close(goOn)
		node, err := got.Wait(t.Context())
		must(t, err)
		if string(node.Data) != "data" {
			t.Errorf("data %q", node.Data)
		}
		if st, _ := s.State(); st.Conn != 1 {
			t.Errorf("connection %d, want the first", st.Conn)
		}
	})
}

// Callers that come with the same context again and again do not register with it, because the reader that rests waits for its end, and
// that ends a caller's wait at once.
func TestTheReaderWaitsForTheEndOfAContext(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		goOn := make(chan struct{})
		defer close(goOn)
		serveFake(t, n, fakeAddr, slow(goOn))
		s := open(t, n, fakeAddr, client.Options{})
		alone(t, s)
		inner, cancel := context.WithCancel(t.Context())
		ctx := &registering{Context: inner}
		come := func() {
			for range 100 {
				_, _, err := s.Get(ctx, "/a")
				must(t, err)
				time.Sleep(time.Millisecond)
			}
		}
		come()
		ctx.times = 0
		come()
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, _, err := s.Get(ctx, "/slow")
		wantErr(t, "wait", err, context.Canceled)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the wait took %v, want 1s", took)
		}
		if ctx.times > 0 {
			t.Errorf("callers have registered with their context %d times", ctx.times)
		}
	})
}

// The end of a context that the reader waits for is that of no caller who has come with another one.
func TestTheEndOfAnothersContext(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		goOn := make(chan struct{})
		serveFake(t, n, fakeAddr, slow(goOn))
		var y spy
		s := open(t, n, fakeAddr, client.Options{Dial: y.dialer(n)})
		alone(t, s)
		theirs, end := context.WithCancel(t.Context())
		for range 100 {
			_, _, err := s.Get(theirs, "/a")
			must(t, err)
			time.Sleep(time.Millisecond)
		}
		y.since()
		ours, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, end)
		half := make(chan []string, 1)
		time.AfterFunc(time.Second/2, func() {
			readBy, _ := y.since()
			half <- readBy
		})
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, _, err := s.Get(ours, "/slow")
		wantErr(t, "wait", err, context.Canceled)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the wait took %v, want 1s", took)
		}
		if readBy := <-half; !only(readBy, goroutine()) {
			t.Errorf("half a second before, read by %q, want %q alone", readBy, goroutine())
		}
		close(goOn)
	})
}

// Contexts that end behind each call do not keep the reader from reading again as soon as otherwise, so a hang-up is noticed as soon.
func TestContextsThatEndAreNoLooksOfTheReader(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var y spy
		serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{Dial: y.dialer(n)})
		alone(t, s)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			_, _, err := s.Get(ctx, "/a")
			must(t, err)
			cancel()
			time.Sleep(5 * time.Millisecond)
		}
		y.since()
		time.Sleep(100 * time.Millisecond)
		if readBy, _ := y.since(); len(readBy) == 0 {
			t.Error("the reader has not read within 100 ms of the last call")
		}
	})
}

// A registering context counts how often context.AfterFunc was asked to follow it.
type registering struct {
	context.Context
	times int
}

func (r *registering) AfterFunc(f func()) (stop func() bool) {
	r.times++
	return context.AfterFunc(r.Context, f)
}

func (r *registering) Value(any) any { return nil } // or it would be known for what it wraps

// A limit of ending.Within ends the wait for an answer, whichever goroutine reads. A caller that reads by itself needs no timer for it.
func TestALimitOfTimeEndsTheWait(t *testing.T) {
	for _, tt := range []struct {
		name        string
		anotherRead bool
		answer      time.Duration // comes after it
	}{
		{"read by the caller and answered", false, time.Second / 2},
		{"read by the caller", false, 2 * time.Second},
		{"read by another goroutine", true, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				goOn := make(chan struct{})
				serveFake(t, n, fakeAddr, slow(goOn))
				s := open(t, n, fakeAddr, client.Options{})
				alone(t, s)
				p := s.Pipeline()
				got := p.Get("/slow")
				p.Send(t.Context())
				time.AfterFunc(tt.answer, func() { close(goOn) })
				if tt.anotherRead {
					got.Done()
					synctest.Wait()
				}
				parent := &askedForDeadline{Context: t.Context()}
				ctx, stop := ending.Within(parent, time.Second)
				defer stop()
				parent.times = 0
				began := time.Now()
				_, err := got.Wait(ctx)
				if took := time.Since(began); took != min(tt.answer, time.Second) {
					t.Errorf("the wait took %v", took)
				}
				if tt.answer < time.Second {
					must(t, err)
					if parent.times > 0 {
						t.Error("a timer was set")
					}
					return
				}
				wantErr(t, "wait", err, context.DeadlineExceeded)
				_, err = got.Wait(t.Context()) // the connection is as it was
				must(t, err)
			})
		})
	}
}

// A connection of Options.Dial's may end a wait a little before the deadline. It is not given up for the limit of one caller.
func TestALimitOfTimeAndCoarseDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		goOn := make(chan struct{})
		defer close(goOn)
		serveFake(t, n, fakeAddr, slow(goOn))
		dial := n.Dialer("client")
		s := open(t, n, fakeAddr, client.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := dial(ctx, network, addr)
			return coarse{nc}, err
		}})
		alone(t, s)
		const limit = time.Second + time.Millisecond/2
		began := time.Now()
		_, _, err := s.Get(short(t, limit), "/slow")
		wantErr(t, "get", err, context.DeadlineExceeded)
		if took := time.Since(began); took != limit {
			t.Errorf("the wait took %v, want %v", took, limit)
		}
		synctest.Wait()
		if st, _ := s.State(); st.Conn != 1 || st.Phase != client.Connected {
			t.Errorf("the connection was given up: %+v", st)
		}
	})
}

// A coarse connection knows deadlines to the millisecond.
type coarse struct{ net.Conn }

func (c coarse) SetReadDeadline(t time.Time) error {
	return c.Conn.SetReadDeadline(t.Truncate(time.Millisecond))
}

// askedForDeadline counts how often it is asked for its deadline, as it is whenever a timer is set for a context below it.
type askedForDeadline struct {
	context.Context
	times int
}

func (a *askedForDeadline) Deadline() (time.Time, bool) {
	a.times++
	return a.Context.Deadline()
}

// While a caller reads, what is for others reaches them at once, and after it has left, too.
func TestOthersAreServedWhileACallerReadsAndAfterwards(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		goOn := make(chan struct{})
		defer close(goOn)
		ready, events := make(chan *peer, 1), slow(goOn)
		serveFake(t, n, fakeAddr, func(p *peer) { ready <- p; events(p) })
		s := open(t, n, fakeAddr, client.Options{})
		server := <-ready
		_, _, first, err := s.WatchGet(t.Context(), "/first")
		must(t, err)
		_, _, second, err := s.WatchGet(t.Context(), "/second")
		must(t, err)
		alone(t, s)
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			server.event(zk.NodeDataChanged, "/first")
			time.Sleep(2 * time.Second)
			server.event(zk.NodeDataChanged, "/second")
		}()
		waits := make(chan error)
		go func() {
			_, _, err := s.Get(short(t, 2*time.Second), "/slow")
			waits <- err
		}()
		synctest.Wait() // it reads
		fired(t, first)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the event was delivered after %v, want 1s", took)
		}
		wantErr(t, "get", <-waits, context.DeadlineExceeded)
		fired(t, second)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the second event was delivered after %v, want 3s", took)
		}
	})
}

// While the reader rests, an event reaches the goroutine that waits for its channel at once.
func TestAnEventIsHeardWhileTheReaderRests(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		ready := make(chan *peer, 1)
		serveFake(t, n, fakeAddr, func(p *peer) { ready <- p; well(p) })
		s := open(t, n, fakeAddr, client.Options{})
		server := <-ready
		_, _, w, err := s.WatchGet(t.Context(), "/a")
		must(t, err)
		alone(t, s)
		began := time.Now()
		server.event(zk.NodeDataChanged, "/a")
		fired(t, w)
		if took := time.Since(began); took != 0 {
			t.Errorf("the event was delivered after %v", took)
		}
	})
}

// An event that no goroutine waits for is taken soon, and one that a goroutine looks for at once.
func TestAnswersThatNobodyWaitsForAreTaken(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{})
		alone(t, s)
		p := s.Pipeline()
		p.Set("/a", nil, -1)
		before := s.Stats().Replies
		p.Send(t.Context())
		time.Sleep(100 * time.Millisecond)
		if got := s.Stats().Replies - before; got != 1 {
			t.Errorf("%d answers were taken, want 1", got)
		}
		alone(t, s)
		p = s.Pipeline()
		set := p.Set("/a", nil, -1)
		p.Send(t.Context())
		began := time.Now()
		<-set.Done()
		if took := time.Since(began); took != 0 {
			t.Errorf("the answer was taken after %v", took)
		}
	})
}

// Listen reads on the caller's goroutine until an event comes, and ends with its context, the session or the
// connection, however long it has lasted.
func TestListen(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, s *client.Session, server *peer, cancel func())
	}{
		{"event", func(_ *testing.T, _ *client.Session, server *peer, _ func()) { server.event(zk.NodeDataChanged, "/a") }},
		{"context", func(_ *testing.T, _ *client.Session, _ *peer, cancel func()) { cancel() }},
		{"session", func(t *testing.T, s *client.Session, _ *peer, _ func()) { s.Close(t.Context()) }},
		{"connection", func(_ *testing.T, _ *client.Session, server *peer, _ func()) { server.nc.Close() }},
		{"cancel", func(t *testing.T, s *client.Session, server *peer, _ func()) { server.event(zk.NodeDataChanged, "/b") }},
	} {
		for _, lasts := range []time.Duration{time.Millisecond, 10 * time.Second} {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				ready := make(chan *peer, 9)
				serveFake(t, n, fakeAddr, func(p *peer) { ready <- p; well(p) })
				var y spy
				s := open(t, n, fakeAddr, client.Options{Dial: y.dialer(n), SessionTimeout: time.Minute})
				server := <-ready
				_, _, a, err := s.WatchGet(t.Context(), "/a")
				must(t, err)
				_, _, b, err := s.WatchGet(t.Context(), "/b")
				must(t, err)
				alone(t, s)
				y.since()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				go func() {
					time.Sleep(lasts)
					tt.end(t, s, server, cancel)
				}()
				s.Listen(ctx, nil, a, b)
				if took := time.Since(began); took != lasts {
					t.Errorf("%s: Listen returned after %v, want %v", tt.name, took, lasts)
				}
				if readBy, _ := y.since(); !slices.Contains(readBy, goroutine()) {
					t.Errorf("%s: read by %q, want %q", tt.name, readBy, goroutine())
				}
				if tt.name != "session" && a.Fired() != (tt.name == "event") { // its end fires it, at the same moment
					t.Errorf("%s: fired: %v", tt.name, a.Fired())
				}
				if tt.name == "session" {
					return
				}
				_, _, err = s.Get(t.Context(), "/a") // all goes on
				must(t, err)
			})
		}
	}
}

// A server that hangs up is noticed although the reader rests.
func TestAHangUpIsNoticedWhileTheReaderRests(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		ready := make(chan *peer, 2)
		serveFake(t, n, fakeAddr, func(p *peer) { ready <- p; well(p) })
		s := open(t, n, fakeAddr, client.Options{})
		alone(t, s)
		began := time.Now()
		_, changed := s.State()
		(<-ready).nc.Close()
		<-changed
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("noticed after %v", took)
		}
	})
}

// A server that says nothing is given up when its time is over, also where callers come and go that wait less long.
func TestASilentServerIsGivenUpHoweverManyCallersCome(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var silent atomic.Bool
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(heard) bool { return p.number == 1 && silent.Load() })
			}
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
		alone(t, s)
		began := time.Now()
		silent.Store(true)
		for st, _ := s.State(); st.Conn == 1 && st.Phase == client.Connected; st, _ = s.State() {
			s.Get(short(t, 100*time.Millisecond), "/a")
			if time.Since(began) > 4*time.Second {
				t.Fatalf("the connection is kept for %v", time.Since(began))
			}
		}
	})
}

// A caller that waits for room has the answers read that make it.
func TestAnAnswerThatMakesRoomIsTakenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{InFlightMax: 1})
		alone(t, s)
		p := s.Pipeline()
		p.Set("/a", nil, -1)
		p.Send(t.Context()) // no caller waits for its answer
		began := time.Now()
		_, _, err := s.Get(t.Context(), "/a")
		must(t, err)
		if took := time.Since(began); took != 0 {
			t.Errorf("there was room after %v", took)
		}
	})
}

// The caller that reads hears at once that its wait is over, although no message says so.
func TestARefusalEndsTheWaitOfWhoReads(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{})
		alone(t, s)
		p := s.Pipeline()
		got := p.Get("not a path")
		began := time.Now()
		go func() {
			time.Sleep(time.Millisecond)
			p.Send(t.Context())
		}()
		_, err := got.Wait(t.Context())
		wantErr(t, "wait", err, zk.ErrBadArguments)
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("the wait took %v, want 1ms", took)
		}
	})
}

// F08: a connection whose Write blocks does not hold up a caller beyond its context. Connections that Options.Dial makes may be
// of that kind; sockets are not, for the few kilobytes that a caller writes by itself.
func TestF08_AWriteThatBlocksHoldsUpNoCaller(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		dial := n.Dialer("client")
		var blocked atomic.Bool
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 30 * time.Second, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := dial(ctx, network, addr)
			return &blocking{Conn: nc, blocked: &blocked, closed: make(chan struct{})}, err
		}})
		alone(t, s)
		blocked.Store(true)
		began := time.Now()
		_, _, err := s.Get(short(t, time.Second), "/a")
		wantErr(t, "Get", err, context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the call took %v, its context ended after 1s", took)
		}
	})
}

// A blocking connection takes nothing while it is blocked, until it is closed.
type blocking struct {
	net.Conn
	blocked *atomic.Bool
	closed  chan struct{}
	once    sync.Once
}

func (c *blocking) Write(b []byte) (int, error) {
	if c.blocked.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *blocking) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A connection of Options.Dial's may say that it is over with an error that reports a timeout. It is given up at once then, whichever
// goroutine reads.
func TestATimeoutBeforeTheDeadlineEndsTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		dial := n.Dialer("client")
		var idle atomic.Bool
		var reads atomic.Int64
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 30 * time.Second, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := dial(ctx, network, addr)
			if idle.Load() {
				return nc, err // the next one is in order
			}
			return timingOut{nc, &idle, &reads}, err
		}})
		alone(t, s)
		idle.Store(true)
		s.Get(short(t, time.Second), "/a")
		synctest.Wait()
		if n, conns := reads.Load(), s.Stats().Connections; n > 2 || conns != 2 { // read by a caller, and by the reader
			t.Errorf("read %d times after it was over, and %d connections were made", n, conns)
		}
	})
}

// A timingOut connection is over once it is idle, and says so with an error that reports a timeout.
type timingOut struct {
	net.Conn
	idle  *atomic.Bool
	reads *atomic.Int64
}

func (c timingOut) Read(b []byte) (int, error) {
	if !c.idle.Load() {
		if n, err := c.Conn.Read(b); !c.idle.Load() {
			return n, err
		}
	}
	if c.reads.Add(1) > 100 {
		return 0, io.EOF
	}
	return 0, os.ErrDeadlineExceeded
}

// openSocket opens a session by a socket of the kernel's, which a caller may write by itself.
func openSocket(t *testing.T, opt client.Options) *client.Session {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serveFakeAt(t, &fake{t: t}, l, well)
	s, err := client.Open(t.Context(), l.Addr().String(), opt)
	must(t, err)
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// A caller that is alone writes to a socket by itself.
func TestACallerThatIsAloneWritesToASocket(t *testing.T) {
	s := openSocket(t, client.Options{})
	for range 100 { // another goroutine may write for as long as something else is on its way
		sent := client.SentByCallers(s)
		_, _, err := s.Get(t.Context(), "/a")
		must(t, err)
		if client.SentByCallers(s) > sent {
			return
		}
	}
	t.Error("in a hundred requests no caller has written to a TCP socket by itself")
}

// The writer's deadline ends no write of a caller that comes long after, although the writer has had nothing to do since.
func TestTheWritersDeadlineIsNotTheCallers(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second // a write may take two thirds of it
	s := openSocket(t, client.Options{SessionTimeout: timeout})
	_, err := s.Set(t.Context(), "/a", make([]byte, 8<<10), zk.AnyVersion) // too much for a caller: the writer sends it
	must(t, err)
	sent := client.SentByCallers(s)
	for began := time.Now(); time.Since(began) < timeout*3/4; {
		_, _, err := s.Get(t.Context(), "/a")
		must(t, err)
	}
	if n := s.Stats().Connections; n != 1 {
		t.Errorf("there were %d connections, want one", n)
	}
	if client.SentByCallers(s) == sent {
		t.Error("no caller has written by itself")
	}
}

// A deadline that Options.Dial has left on the connection, for an exchange with a proxy perhaps, ends no write of a caller.
func TestADeadlineOfTheDialers(t *testing.T) {
	t.Parallel()
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = nc.SetDeadline(time.Now().Add(time.Second))
		}
		return nc, err
	}
	s := openSocket(t, client.Options{Dial: dial})
	time.Sleep(1500 * time.Millisecond)
	_, _, err := s.Get(t.Context(), "/a")
	must(t, err)
	if n := s.Stats().Connections; n != 1 {
		t.Errorf("there were %d connections, want one", n)
	}
}

// Nothing is written behind a write that has failed: a part of that may be on its way.
func TestNoCallerWritesBehindAWriteThatFailed(t *testing.T) {
	s := openSocket(t, client.Options{})
	for range 10 {
		_, _, err := s.Get(t.Context(), "/a")
		must(t, err)
	}
	sent := client.SentByCallers(s)
	client.FailWrites(s)
	_, _, err := s.Get(t.Context(), "/a") // on the next connection, whose writes are counted anew
	must(t, err)
	if n := client.SentByCallers(s); n > sent && s.Stats().Connections == 1 {
		t.Errorf("callers have written %d times behind it", n-sent)
	}
	if n := s.Stats().Connections; n != 2 {
		t.Errorf("there were %d connections, want two", n)
	}
}
