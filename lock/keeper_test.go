package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const keptPath = "/locks/kept"

func must(t *testing.T, h *lock.Hold, err error) *lock.Hold {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// kept runs a test in virtual time with a server and a Keeper behind the link "k".
func kept(t *testing.T, f func(t *testing.T, srv *zktest.Server, k *client.Keeper)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Link("k").Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close(context.Background())
		f(t, srv, k)
	})
}

// runLocked runs work under a lock on the session of a Keeper.
func runLocked(ctx context.Context, k *client.Keeper, work func(h *lock.Hold) error) error {
	return k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		m, err := lock.NewMutex(s, keptPath, lock.Options{})
		if err != nil {
			return err
		}
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		return h.Do(ctx, func(context.Context) error { return work(h) })
	})
}

// stranger returns a hold of the same lock by another session.
func stranger(t *testing.T, srv *zktest.Server) *lock.Hold {
	t.Helper()
	m, err := lock.NewMutex(srv.Session(t, "stranger"), keptPath, lock.Options{})
	must(t, nil, err)
	h, err := m.Lock(t.Context())
	return must(t, h, err)
}

// F20: a hold never passes to another session. Work that lost its session begins again under another hold, with a higher
// token, and a lock is not taken when no function asks for it.
func TestF20_KeeperRunAfterAnExpiry(t *testing.T) {
	kept(t, func(t *testing.T, srv *zktest.Server, k *client.Keeper) {
		var holds []*lock.Hold
		err := runLocked(t.Context(), k, func(h *lock.Hold) error {
			holds = append(holds, h)
			if len(holds) == 2 {
				return nil
			}
			srv.Link("k").Expire()
			<-h.Done()
			return h.Cause()
		})
		must(t, nil, err)
		if len(holds) != 2 || holds[1].Token() <= holds[0].Token() {
			t.Errorf("the work was run under %d holds, want two with tokens that grow", len(holds))
		}
		if !errors.Is(holds[0].Cause(), zk.ErrSessionExpired) || holds[1].Cause() != lock.ErrReleased {
			t.Errorf("the holds ended with %v and %v", holds[0].Cause(), holds[1].Cause())
		}
		srv.Link("k").Expire()
		time.Sleep(time.Hour)
		if left := srv.Tree(keptPath); len(left) > 1 { // itself
			t.Errorf("a contender is in the queue: %v", left)
		}
	})
}

// A session that ends while the function waits costs the place in the queue only.
func TestKeeperRunExpiresInLine(t *testing.T) {
	kept(t, func(t *testing.T, srv *zktest.Server, k *client.Keeper) {
		held := stranger(t, srv)
		ended := make(chan error)
		runs := 0
		go func() {
			ended <- runLocked(t.Context(), k, func(*lock.Hold) error {
				runs++
				return nil
			})
		}()
		for range 3 {
			synctest.Wait()
			srv.Link("k").Expire()
		}
		synctest.Wait()
		must(t, nil, held.Release(t.Context()))
		must(t, nil, <-ended)
		if runs != 1 {
			t.Errorf("the work was run %d times, want once", runs)
		}
	})
}

// Close ends a wait in the queue and the work under a lock, and the lock is free for others when it returns.
func TestKeeperRunUnderClose(t *testing.T) {
	kept(t, func(t *testing.T, srv *zktest.Server, k *client.Keeper) {
		ended := make(chan error, 2)
		var causes []error
		for range 2 { // one works, the other waits
			go func() {
				ended <- runLocked(t.Context(), k, func(h *lock.Hold) error {
					<-h.Done()
					causes = append(causes, h.Cause())
					return h.Cause()
				})
			}()
		}
		synctest.Wait()
		must(t, nil, k.Close(t.Context()))
		for range 2 {
			if err := <-ended; !errors.Is(err, zk.ErrClosed) {
				t.Errorf("Run = %v, want zk.ErrClosed", err)
			}
		}
		if len(causes) != 1 || !slices.ContainsFunc(causes, func(err error) bool { return errors.Is(err, zk.ErrClosed) }) {
			t.Errorf("the holds ended with %v, want one that ended with zk.ErrClosed", causes)
		}
		must(t, nil, stranger(t, srv).Release(t.Context()))
	})
}

// While no server can be reached, a wait for the lock ends with its context or with Close.
func TestKeeperRunWithoutServers(t *testing.T) {
	kept(t, func(t *testing.T, srv *zktest.Server, k *client.Keeper) {
		srv.Link("k").Refuse()
		synctest.Wait()
		none := func(*lock.Hold) error {
			t.Error("the work was run without a server")
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := runLocked(ctx, k, none); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run = %v, want the deadline's error", err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("Run with a minute's limit took %v", d)
		}
		ended := make(chan error)
		go func() { ended <- runLocked(t.Context(), k, none) }()
		synctest.Wait()
		if err := k.Close(t.Context()); err == nil {
			t.Error("Close says that the session has ended, which no server has told")
		}
		if err := <-ended; !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Run = %v, want zk.ErrClosed", err)
		}
	})
}
