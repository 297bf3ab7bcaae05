package lock_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const standalonePath = "/locks/alone"

// A diary is what the callbacks of a Standalone were told, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// expect compares the diary, once everything has come to rest, and begins a new one.
func (d *diary) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("the callbacks said %q, want %q", d.lines, want)
	}
	d.lines = nil
}

func (d *diary) acquired(*lock.Hold) { d.write("acquired") }

func (d *diary) released(h *lock.Hold) {
	for _, cause := range []error{lock.ErrReleased, zk.ErrSessionExpired, zk.ErrClosed, lock.ErrNodeDeleted, lock.ErrDeadline} {
		if errors.Is(h.Cause(), cause) {
			d.write(cause.Error())
			return
		}
	}
	d.write("over without a cause")
}

func (d *diary) failed(err error) {
	for _, cause := range []error{zk.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, cause) {
			d.write("failed: " + cause.Error())
			return
		}
	}
	d.write("failed: " + err.Error())
}

// standalone runs a test in virtual time with a server and a Standalone behind the link "s".
func standalone(t *testing.T, f func(t *testing.T, srv *zktest.Server, s *lock.Standalone, d *diary)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		d := &diary{}
		s, err := lock.Dial(t.Context(), zktest.Servers, standalonePath, lock.DialOptions{
			Session:  client.Options{Dial: srv.Link("s").Dial},
			Acquired: d.acquired,
			Released: d.released,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		f(t, srv, s, d)
	})
}

func must(t *testing.T, h *lock.Hold, err error) *lock.Hold {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// stranger returns the same lock of another session.
func stranger(t *testing.T, srv *zktest.Server) *lock.Mutex {
	t.Helper()
	m, err := lock.NewMutex(srv.Session(t, "stranger"), standalonePath, lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestStandaloneTellsOfEachHold(t *testing.T) {
	standalone(t, func(t *testing.T, _ *zktest.Server, s *lock.Standalone, d *diary) {
		h, err := s.Lock(t.Context())
		must(t, h, err)
		d.expect(t, "acquired")
		if _, err := s.TryLock(t.Context()); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("TryLock beside a hold = %v, want ErrBusy", err)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		d.expect(t, lock.ErrReleased.Error())
		h, err = s.TryLock(t.Context())
		must(t, h, err)
		d.expect(t, "acquired")
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		d.expect(t, zk.ErrClosed.Error())
	})
}

// F20: nothing is locked again unasked, and what is asked for comes from another session.
func TestF20_StandaloneAfterAnExpiry(t *testing.T) {
	standalone(t, func(t *testing.T, srv *zktest.Server, s *lock.Standalone, d *diary) {
		first, err := s.Lock(t.Context())
		must(t, first, err)
		srv.Link("s").Expire()
		<-first.Done()
		d.expect(t, "acquired", zk.ErrSessionExpired.Error())
		time.Sleep(time.Hour)
		d.expect(t)
		if left := srv.Tree(standalonePath); len(left) > 1 { // itself
			t.Errorf("a contender is in the queue: %v", left)
		}
		second, err := s.Lock(t.Context())
		must(t, second, err)
		d.expect(t, "acquired")
		if second.Token() <= first.Token() {
			t.Errorf("token %#x after %#x", second.Token(), first.Token())
		}
		if first.Cause() == nil {
			t.Error("the first hold lives again")
		}
		if err := second.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A session that ends while Lock waits costs the place in the queue only.
func TestStandaloneExpiresInLine(t *testing.T) {
	standalone(t, func(t *testing.T, srv *zktest.Server, s *lock.Standalone, d *diary) {
		m := stranger(t, srv)
		held, err := m.Lock(t.Context())
		must(t, held, err)
		granted := make(chan *lock.Hold)
		go func() {
			h, err := s.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			granted <- h
		}()
		for range 3 {
			synctest.Wait()
			srv.Link("s").Expire()
		}
		synctest.Wait()
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if h := <-granted; h != nil {
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		d.expect(t, "acquired", lock.ErrReleased.Error())
	})
}

func TestStandaloneStart(t *testing.T) {
	standalone(t, func(t *testing.T, srv *zktest.Server, s *lock.Standalone, d *diary) {
		held, err := stranger(t, srv).Lock(t.Context())
		must(t, held, err)
		ctx, cancel := context.WithCancel(t.Context())
		s.Start(ctx, d.failed)
		d.expect(t)
		cancel()
		d.expect(t, "failed: "+context.Canceled.Error())

		s.Start(t.Context(), d.failed)
		d.expect(t)
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		d.expect(t, "acquired")

		s.Start(t.Context(), d.failed) // behind its own hold
		d.expect(t)
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		d.mu.Lock()
		slices.Sort(d.lines) // of two goroutines
		d.mu.Unlock()
		d.expect(t, "failed: "+zk.ErrClosed.Error(), zk.ErrClosed.Error())
		s.Start(t.Context(), d.failed)
		d.expect(t, "failed: "+zk.ErrClosed.Error())
	})
}

// While no server can be reached, Lock ends with its context or with Close.
func TestStandaloneWithoutServers(t *testing.T) {
	standalone(t, func(t *testing.T, srv *zktest.Server, s *lock.Standalone, d *diary) {
		srv.Link("s").Refuse()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := s.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock = %v, want the deadline's error", err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("Lock with a minute's limit took %v", d)
		}
		s.Start(t.Context(), d.failed)
		s.Start(t.Context(), nil)
		synctest.Wait()
		if err := s.Close(t.Context()); err == nil {
			t.Error("Close says that the session has ended, which no server has told")
		}
		d.expect(t, "failed: "+zk.ErrClosed.Error())
		if _, err := s.Lock(t.Context()); !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Lock after Close = %v, want zk.ErrClosed", err)
		}
		var e *lock.LockError
		if _, err := s.TryLock(t.Context()); !errors.Is(err, zk.ErrClosed) || !errors.As(err, &e) || e.Op != "try lock" {
			t.Errorf("TryLock after Close = %v, want zk.ErrClosed of a try", err)
		}
	})
}

// A slowConn takes a moment for each read.
type slowConn struct{ net.Conn }

func (c slowConn) Read(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return c.Conn.Read(b)
}

// Close may come at any moment of a Lock that opens a session: it leaves no session, and so no claim.
func TestStandaloneClosedWhileOpening(t *testing.T) {
	for after := time.Duration(0); after < 10*time.Millisecond; after += time.Millisecond / 2 {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			link := srv.Link("s")
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				nc, err := link.Dial(ctx, network, address)
				return slowConn{nc}, err
			}
			opt := lock.DialOptions{Session: client.Options{Dial: dial}}
			s, err := lock.Dial(t.Context(), zktest.Servers, standalonePath, opt)
			if err != nil {
				t.Fatal(err)
			}
			link.Expire()
			time.Sleep(time.Second)
			ended := false
			s.Start(t.Context(), func(error) { ended = true })
			time.Sleep(after)
			s.Close(t.Context())
			if !ended && after == 0 {
				t.Error("granted before there was a session")
			}
			time.Sleep(time.Minute) // for the server to forget one whose handshake was given up
			if n := srv.Stats().Sessions; n != 0 {
				t.Errorf("closed after %v: %d sessions live on", after, n)
			}
		})
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		session := client.Options{Dial: srv.Link("s").Dial}
		if _, err := lock.Dial(t.Context(), zktest.Servers, "/", lock.DialOptions{Session: session}); err == nil {
			t.Error("the root is no lock")
		}
		srv.Link("s").Refuse()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := lock.Dial(ctx, zktest.Servers, standalonePath, lock.DialOptions{Session: session})
		if open := (*client.OpenError)(nil); !errors.As(err, &open) {
			t.Errorf("Dial = %v, want a *client.OpenError", err)
		}
	})
}
