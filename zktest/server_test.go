package zktest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Clients of any kind come over TCP, in real time; the address outlives the server.
func TestOverTCP(t *testing.T) {
	srv := zktest.New(t, zktest.Options{TickTime: 50 * time.Millisecond})
	open := func(addr string, timeout time.Duration) *client.Session {
		s, err := client.Open(t.Context(), addr, client.Options{SessionTimeout: timeout, BackoffMax: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.Background()) })
		return s
	}
	if srv.Addr() != srv.Link("default").Addr() || srv.Addr() == srv.Link("a").Addr() {
		t.Errorf("addresses %s, %s and %s: one for each link", srv.Addr(), srv.Link("default").Addr(), srv.Link("a").Addr())
	}
	// A busy machine may stand still for longer than a second.
	s, a := open(srv.Addr(), 30*time.Second), open(srv.Link("a").Addr(), 3*time.Second)
	create(t, a, "/e", "x", zk.Ephemeral)
	srv.Restart()
	if _, _, err := s.Get(t.Context(), "/e"); err != nil {
		t.Error(err)
	}
	if got := srv.Tree("/e").String(); got != "/e = \"x\" (ephemeral of a)\n" {
		t.Errorf("the znode: %q", got)
	}
	srv.Link("a").Freeze()
	for deadline := time.Now().Add(30 * time.Second); len(srv.Tree("/e")) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the session of a frozen client does not expire")
		}
	}
	srv.Link("a").Heal()
	<-a.Done()
	if !errors.Is(a.Err(), zk.ErrSessionExpired) {
		t.Errorf("the session ended with %v", a.Err())
	}
	if p, _ := s.State(); p.Phase.Final() {
		t.Errorf("another client's session is %v", p.Phase)
	}
}

// A port cannot refuse, so the server hangs up on each connection; after Close there is no port.
func TestRefusedOverTCP(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	srv.Link("").Refuse()
	nc, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if n, err := nc.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("the connection is not closed")
	}
	addr := srv.Addr()
	srv.Close()
	if nc, err := net.Dial("tcp", addr); err == nil {
		nc.Close()
		t.Error("the port is open after Close")
	}
	defer func() {
		if recover() == nil {
			t.Error("a closed server gives out an address")
		}
	}()
	srv.Link("new").Addr()
}

func TestOptions(t *testing.T) {
	bubble(t, zktest.Options{
		TickTime: time.Second, SessionTimeoutMin: 3 * time.Second, SessionTimeoutMax: 5 * time.Second,
		Server: func(o *server.Options) { o.TickTime, o.ExtendedTypes, o.ReapInterval = 1, true, time.Second },
	}, func(t *testing.T, srv *zktest.Server) {
		if srv.TickTime() != time.Second {
			t.Errorf("tick %v", srv.TickTime())
		}
		for asked, granted := range map[time.Duration]time.Duration{
			time.Second: 3 * time.Second, 4 * time.Second: 4 * time.Second, time.Minute: 5 * time.Second,
		} {
			s, err := srv.Link("").Open(t.Context(), client.Options{SessionTimeout: asked})
			if err != nil {
				t.Fatal(err)
			}
			if s.Timeout() != granted {
				t.Errorf("asked for %v: granted %v, want %v", asked, s.Timeout(), granted)
			}
			s.Close(t.Context())
		}
		s := srv.Session(t, "a")
		if _, err := s.CreateTTL(t.Context(), "/ttl", nil, zk.PersistentTTL, nil, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		srv.Restart()
		time.Sleep(4 * time.Second)
		if there(srv, "/ttl") {
			t.Error("the options are not those of the restarted server")
		}
	})
}

// A short tick allows short timeouts and forces none.
func TestTimeoutsWithAShortTick(t *testing.T) {
	bubble(t, zktest.Options{TickTime: 50 * time.Millisecond}, func(t *testing.T, srv *zktest.Server) {
		for asked, granted := range map[time.Duration]time.Duration{
			time.Millisecond: 100 * time.Millisecond, 30 * time.Second: 30 * time.Second, time.Hour: 40 * time.Second,
		} {
			s, err := srv.Link("").Open(t.Context(), client.Options{SessionTimeout: asked})
			if err != nil {
				t.Fatal(err)
			}
			if s.Timeout() != granted {
				t.Errorf("asked for %v: granted %v, want %v", asked, s.Timeout(), granted)
			}
			s.Close(t.Context())
		}
	})
}

func TestStartRefusesNonsense(t *testing.T) {
	for _, opt := range []zktest.Options{
		{SessionTimeoutMin: 2 * time.Second, SessionTimeoutMax: time.Second},
		{TickTime: -time.Second},
		{TickTime: 1000 * time.Hour}, // clients hear of a timeout in 32 bits of milliseconds
	} {
		srv, err := zktest.Start(opt)
		if err == nil {
			srv.Close()
			t.Errorf("%+v: Start succeeded", opt)
		}
	}
}

func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		srv := zktest.New(t, zktest.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s := srv.Session(t, "a")
		srv.Link("a").Freeze()
		time.Sleep(s.Timeout() + srv.TickTime())
		synctest.Wait() // this is the very moment
		srv.Close()
		if !strings.Contains(log.String(), "session expired") {
			t.Errorf("the log says nothing of an expired session:\n%s", log.String())
		}
	})
}

// After Close nothing answers, nothing runs, and nothing that is still called does harm. That nothing
// runs is what the bubble sees to: it fails the test if a goroutine is left.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := zktest.Start(zktest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := srv.Link("a").Open(t.Context(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		create(t, s, "/p", "", zk.Persistent)
		srv.Link("frozen").Freeze()
		waiting := make(chan error)
		go func() {
			_, err := srv.Link("frozen").Dial(t.Context(), "tcp", "zk:2181")
			waiting <- err
		}()
		synctest.Wait()
		for range 2 {
			if err := srv.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-waiting; err == nil {
			t.Error("a connection to a server that is closed")
		}
		srv.Restart()
		srv.Crash()
		for _, link := range []string{"", "a", "new"} {
			if _, err := srv.Link(link).Dial(t.Context(), "tcp", "zk:2181"); err == nil {
				t.Errorf("link %q: a client could connect", link)
			}
			if n := srv.Link(link).Expire(); n != 0 {
				t.Errorf("link %q: %d sessions expired", link, n)
			}
		}
		if len(srv.Tree("/p")) != 1 {
			t.Error("the tree cannot be looked at any more")
		}
		s.Close(t.Context())
	})
}

// A caller that asks for a link while the server is closed gets one.
func TestLinkBesideClose(t *testing.T) {
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		srv.Link(fmt.Sprint("old ", i))
	}
	closed := make(chan error)
	go func() { closed <- srv.Close() }()
	for i := 0; ; i++ {
		srv.Link(fmt.Sprint(i))
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// Restart, Crash and Close take turns, and in a bubble those that wait do not stop the time.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "a")
		done := make(chan struct{})
		for i := range 9 {
			go func() {
				defer func() { done <- struct{}{} }()
				if i%3 == 0 {
					srv.Crash()
				} else {
					srv.Restart()
				}
			}()
		}
		for range 9 {
			<-done
		}
		srv.Restart()
		if err := s.Sync(t.Context(), "/"); err != nil {
			t.Error(err)
		}
	})
}

// A failure of the server itself is not lost: Close tells.
func TestCloseTellsWhatWentWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := false
		srv, err := zktest.Start(zktest.Options{Server: func(o *server.Options) {
			if bad {
				o.MinSessionTimeout = time.Hour
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		bad = true
		srv.Restart()
		if _, err := srv.Dial(t.Context(), "tcp", "zk:2181"); err == nil {
			t.Error("a server that could not start takes connections")
		}
		for range 2 {
			if err := srv.Close(); err == nil || !strings.Contains(err.Error(), "the timeouts in order") {
				t.Errorf("Close: %v", err)
			}
		}
	})
}

// Four-letter words pass, for clients that ask for a server's health first.
func TestFourLetterWords(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		nc, err := srv.Dial(t.Context(), "tcp", "zk:2181")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := io.WriteString(nc, "srvr"); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(nc); err != nil || !strings.Contains(string(b), "standalone") {
			t.Errorf("srvr: %q, %v", b, err)
		}
	})
}

// Time that passes outside a bubble, on a machine that is busy or was suspended, takes no hold from a Keeper in the bubble.
func TestKeeperInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{TickTime: 10 * time.Millisecond, SessionTimeoutMax: 50 * time.Millisecond})
		s, err := srv.Keeper(t, "a").Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, err := lock.NewMutex(s, "/l", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now := func() int64 { // package time would say the bubble's
			var tv syscall.Timeval
			if err := syscall.Gettimeofday(&tv); err != nil {
				t.Fatal(err)
			}
			return tv.Nano()
		}
		for start := now(); now()-start < int64(100*time.Millisecond); {
		}
		if err := h.Cause(); err != nil {
			t.Errorf("%v, though no time has passed in the bubble", err)
		}
	})
}
