package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// bubble runs a test in virtual time, with a server.
func bubble(t *testing.T, opt zktest.Options, f func(*testing.T, *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.New(t, opt)) })
}

func create(t *testing.T, s *client.Session, path, data string, mode zk.Mode) string {
	t.Helper()
	c, err := s.Create(t.Context(), path, []byte(data), mode, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Path
}

// there reports whether the server has a znode, without asking it.
func there(srv *zktest.Server, path string) bool {
	synctest.Wait()
	return len(srv.Tree(path)) > 0
}

// phase returns what the session is doing once everything has come to rest.
func phase(s *client.Session) client.Phase {
	synctest.Wait()
	st, _ := s.State()
	return st.Phase
}

// A session whose client falls silent goes at the first multiple of the tick that is later than its
// timeout: not a moment before, not a moment after.
func TestSilentSessionExpiresWithTheTick(t *testing.T) {
	for _, c := range []struct{ tick, timeout, heard, gone time.Duration }{
		{2 * time.Second, 10 * time.Second, 0, 12 * time.Second},
		{2 * time.Second, 10 * time.Second, 1500 * time.Millisecond, 12 * time.Second},
		{2 * time.Second, 10 * time.Second, 2 * time.Second, 14 * time.Second},
		{3 * time.Second, 10 * time.Second, 0, 12 * time.Second},
		{100 * time.Millisecond, 250 * time.Millisecond, 0, 300 * time.Millisecond},
	} {
		bubble(t, zktest.Options{TickTime: c.tick}, func(t *testing.T, srv *zktest.Server) {
			began := time.Now()
			s, err := srv.Link("a").Open(t.Context(), client.Options{SessionTimeout: c.timeout})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(t.Context())
			if s.Timeout() != c.timeout {
				t.Fatalf("granted %v, want %v", s.Timeout(), c.timeout)
			}
			time.Sleep(c.heard)
			create(t, s, "/e", "", zk.Ephemeral)
			srv.Link("a").Freeze()
			time.Sleep(time.Until(began.Add(c.gone - time.Nanosecond)))
			if !there(srv, "/e") {
				t.Errorf("%+v: gone too early", c)
			}
			time.Sleep(time.Nanosecond)
			if there(srv, "/e") {
				t.Errorf("%+v: not gone in time", c)
			}
			srv.Link("a").Heal()
		})
	}
}

func TestFreezeShorterThanTheTimeoutIsSurvived(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		create(t, s, "/e", "", zk.Ephemeral)
		srv.Link("a").Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := s.Get(ctx, "/e"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a read through a frozen link: %v", err)
		}
		time.Sleep(s.Timeout()/2 - time.Second)
		srv.Link("a").Heal()
		if _, _, err := s.Get(t.Context(), "/e"); err != nil {
			t.Errorf("a read after Heal: %v", err)
		}
		if p := phase(s); p != client.Connected {
			t.Errorf("the session is %v", p)
		}
	})
}

func TestFreezeLongerThanTheTimeoutExpires(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		s, other := srv.Session(t, "a"), srv.Session(t, "b")
		create(t, s, "/e", "", zk.Ephemeral)
		srv.Link("a").Freeze()
		time.Sleep(s.Timeout() + srv.TickTime())
		if there(srv, "/e") {
			t.Error("the ephemeral has outlived its session")
		}
		if p := phase(s); p.Final() {
			t.Errorf("the session is %v while nothing can have told it", p)
		}
		srv.Link("a").Heal()
		select {
		case <-s.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the session does not learn of its end")
		}
		if !errors.Is(s.Err(), zk.ErrSessionExpired) {
			t.Errorf("the session ended with %v", s.Err())
		}
		if p := phase(other); p != client.Connected {
			t.Errorf("another client's session is %v", p)
		}
	})
}

func TestCutIsShorterThanTheTimeout(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		s, other := srv.Session(t, "a"), srv.Session(t, "b")
		create(t, s, "/e", "", zk.Ephemeral)
		srv.Link("a").Cut()
		if p := phase(s); p != client.Disconnected && p != client.Connected {
			t.Errorf("the session is %v", p)
		}
		if _, _, err := s.Get(t.Context(), "/e"); err != nil {
			t.Error(err)
		}
		if a, b := s.Stats().Connections, other.Stats().Connections; a != 2 || b != 1 {
			t.Errorf("connections: %d of the one that was cut, %d of the other; want 2 and 1", a, b)
		}
	})
}

func TestRefusedUntilHealed(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		srv.Link("a").Refuse()
		time.Sleep(s.Timeout() / 2)
		if p := phase(s); p != client.Disconnected {
			t.Errorf("the session is %v", p)
		}
		if n := srv.Stats().Connections; n != 0 {
			t.Errorf("the server has %d connections", n)
		}
		if _, err := srv.Link("a").Dial(t.Context(), "tcp", "zk:2181"); err == nil {
			t.Error("a client could connect")
		}
		srv.Session(t, "b")
		srv.Link("a").Heal()
		if err := s.Sync(t.Context(), "/"); err != nil {
			t.Error(err)
		}
	})
}

func TestExpire(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		a, b, other := srv.Session(t, "a"), srv.Session(t, "a"), srv.Session(t, "other")
		create(t, a, "/a", "", zk.Ephemeral)
		create(t, b, "/b", "", zk.Ephemeral)
		create(t, other, "/other", "", zk.Ephemeral)
		if !srv.Expire(a.ID()) || srv.Expire(a.ID()) || srv.Expire(12345) {
			t.Fatal("Expire reports something else than whether there was such a session")
		}
		if len(srv.Tree("/a")) > 0 {
			t.Error("the znode is there when Expire has returned")
		}
		if n := srv.Link("a").Expire(); n != 1 {
			t.Fatalf("%d sessions on the link, want 1", n)
		}
		<-a.Done()
		<-b.Done()
		if !errors.Is(a.Err(), zk.ErrSessionExpired) || !errors.Is(b.Err(), zk.ErrSessionExpired) {
			t.Errorf("the sessions ended with %v and %v", a.Err(), b.Err())
		}
		if p := phase(other); p != client.Connected || !there(srv, "/other") {
			t.Errorf("another client's session is %v", p)
		}
	})
}

// The link knows the session that was opened through it, also by a client that is not ours.
func TestSessionsFollowTheirClientToAnotherLink(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		way := srv.Link("first")
		s, err := client.Open(t.Context(), "zk1:2181,zk2:2181", client.Options{
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				return way.Dial(ctx, network, address)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		create(t, s, "/e", "", zk.Ephemeral)
		way = srv.Link("second")
		srv.Link("first").Cut()
		if err := s.Sync(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		if owner := srv.Tree("/e")[0].Owner; owner != "second" {
			t.Errorf("owner %q", owner)
		}
		if n := srv.Link("first").Expire(); n != 0 {
			t.Errorf("%d sessions on the link that it has left", n)
		}
		if n := srv.Link("second").Expire(); n != 1 {
			t.Errorf("%d sessions on the link that it has come to", n)
		}
	})
}

func TestLoseAnswer(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		srv.Link("a").LoseAnswer()
		if _, _, err := s.Children(t.Context(), "/"); err != nil {
			t.Errorf("a read is concerned: %v", err)
		}
		_, err := s.Create(t.Context(), "/n", nil, zk.Persistent, nil)
		if !client.MaybeApplied(err) {
			t.Errorf("the error is %v, want one that leaves it open", err)
		}
		if len(srv.Tree("/n")) != 1 {
			t.Error("the server has not carried it out")
		}
		create(t, s, "/m", "", zk.Persistent)
	})
}

func TestRestartKeepsSessionsAndZnodes(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		create(t, s, "/p", "kept", zk.Persistent)
		create(t, s, "/e", "kept too", zk.Ephemeral)
		before, zxid := srv.Tree("/").String(), srv.Stats().Zxid
		srv.Restart()
		if after := srv.Tree("/").String(); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
		if _, _, err := s.Get(t.Context(), "/e"); err != nil {
			t.Error(err)
		}
		if got := srv.Stats().Zxid; got != zxid {
			t.Errorf("zxid %d, want %d: the session has not been kept", got, zxid)
		}
	})
}

// After a restart a session has its full timeout, however long the server was away.
func TestSessionsOutliveAServerThatIsDown(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		create(t, s, "/e", "", zk.Ephemeral)
		srv.Crash()
		srv.Crash()
		time.Sleep(5 * s.Timeout())
		if p := phase(s); p != client.Disconnected {
			t.Errorf("the session is %v", p)
		}
		if len(srv.Tree("/e")) != 1 {
			t.Error("the disk has lost a znode")
		}
		if srv.Expire(s.ID()) {
			t.Error("a server that is down has expired a session")
		}
		srv.Restart()
		if err := s.Sync(t.Context(), "/"); err != nil {
			t.Error(err)
		}
		if s.Stats().Connections != 2 {
			t.Errorf("%d connections, want 2", s.Stats().Connections)
		}
	})
}

// What was acknowledged is there after a crash, whenever it comes: the writers are in the middle of
// their work.
func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	const rounds, writers = 20, 8
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		var mu sync.Mutex
		var acknowledged []string
		note := func(path string) (n int) {
			mu.Lock()
			defer mu.Unlock()
			acknowledged = append(acknowledged, path)
			return len(acknowledged)
		}
		var sessions []*client.Session
		for i := range writers {
			sessions = append(sessions, srv.Session(t, fmt.Sprint("writer", i)))
		}
		for round := range rounds {
			acknowledged = nil
			enough, restarted := make(chan struct{}), make(chan struct{})
			var writing sync.WaitGroup
			for _, s := range sessions {
				writing.Go(func() {
					for {
						c, err := s.Create(t.Context(), "/n", nil, zk.PersistentSequential, nil)
						if err != nil {
							return
						}
						if note(c.Path) == round+1 {
							close(enough)
						}
						select {
						case <-restarted: // between two of its writes
							return
						default:
						}
					}
				})
			}
			<-enough
			srv.Restart()
			close(restarted)
			writing.Wait()
			kept := map[string]bool{}
			for _, n := range srv.Tree("/") {
				kept[n.Path] = true
			}
			for _, path := range acknowledged {
				if !kept[path] {
					t.Fatalf("round %d: %s was acknowledged and is gone", round, path)
				}
			}
		}
	})
}

// A session that has ended stays ended: none that is opened after a restart has its id.
func TestRestartGivesNoIDAgain(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		seen := map[int64]bool{}
		for range 5 {
			s := srv.Session(t, "a")
			if seen[s.ID()] {
				t.Fatalf("session %v was there before", s)
			}
			seen[s.ID()] = true
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			srv.Restart()
		}
	})
}

// The use that it is all for: code that holds a lock, and what becomes of it.
func TestLockIsLostWhenItsClientFreezes(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		holder := srv.Session(t, "holder")
		hold := mustLock(t, holder)
		granted := make(chan time.Time)
		go func() {
			h := mustLock(t, srv.Session(t, "waiter"))
			granted <- time.Now()
			h.Release(t.Context())
		}()
		synctest.Wait()
		frozen := time.Now()
		srv.Link("holder").Freeze()
		<-hold.Done()
		lost := time.Now()
		if d := lost.Sub(frozen); d > holder.Timeout()*2/3 {
			t.Errorf("the holder believed in it for %v", d)
		}
		if at := <-granted; !at.After(lost) || at.Sub(frozen) > holder.Timeout()+srv.TickTime() {
			t.Errorf("passed on %v after the freeze, the holder stopped after %v", at.Sub(frozen), lost.Sub(frozen))
		}
	})
}

func mustLock(t *testing.T, s *client.Session) *lock.Hold {
	t.Helper()
	m, err := lock.NewMutex(s, "/locks/a", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}
