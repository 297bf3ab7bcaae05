package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F24: a holder hears at one moment that the znode is another's, and that this one has been written to. Which of the
// two it looks at first is chance, hence the rounds.
func TestF24_UnfairTakenAndWrittenTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		var gate atomic.Pointer[chan struct{}]
		elapsed := func(time.Time) time.Duration {
			if c := gate.Load(); c != nil && bytes.Contains(debug.Stack(), []byte("(*watchdog).look(")) {
				<-*c // as if the process had been paused just there
			}
			return 0
		}
		ours, theirs := srv.Link("ours"), srv.Session(t, "theirs")
		s, err := ours.Open(t.Context(), clock.With(client.Options{}, &clock.Clock{Elapsed: elapsed}))
		must(t, nil, err)
		defer s.Close(t.Context())
		a, err := lock.NewUnfair(s, "/locks/a", lock.Options{})
		must(t, nil, err)
		b, err := lock.NewUnfair(theirs, "/locks/a", lock.Options{})
		must(t, nil, err)
		for range 10 {
			lost, err := a.Lock(t.Context())
			must(t, lost, err)
			ours.Freeze()
			time.Sleep(500 * time.Millisecond) // the watch on the znode has been asked for
			must(t, nil, theirs.Delete(t.Context(), a.Path(), -1))
			held, err := b.Lock(t.Context())
			must(t, held, err)
			paused := make(chan struct{})
			gate.Store(&paused)
			time.Sleep(time.Second) // the deadline is looked at once a second
			ours.Heal()
			time.Sleep(time.Millisecond) // the watch is set
			_, err = theirs.Set(t.Context(), a.Path(), nil, -1)
			must(t, nil, err)
			synctest.Wait()
			gate.Store(nil)
			close(paused)
			<-lost.Done()
			must(t, nil, held.Release(t.Context()))
		}
	})
}

// A Waiting that panics leaves no watch behind, neither here nor at the server.
func TestAWaitOfAnUnfairLockThatPanicsLeavesNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		a, err := lock.NewUnfair(srv.Session(t, "a"), "/locks/a", lock.Options{})
		must(t, nil, err)
		b, err := lock.NewUnfair(srv.Session(t, "b"), "/locks/a", lock.Options{Hooks: lock.Hooks{Waiting: func(context.Context, string, lock.Place) { panic("of the user's") }}})
		must(t, nil, err)
		held, err := a.Lock(t.Context())
		must(t, held, err)
		time.Sleep(time.Second) // the hold is watched
		before := srv.Stats().Watches
		func() {
			defer func() { recover() }()
			b.Lock(t.Context())
			t.Error("Lock has returned although Waiting panics")
		}()
		time.Sleep(time.Second)
		if after := srv.Stats().Watches; after != before || before == 0 {
			t.Errorf("%d watches at the server, want the %d of the holder", after, before)
		}
	})
}

// A write to the holder's znode costs each waiter a read and no create, which the ensemble would have to agree on.
func TestWritesToTheHolderCostWaitersOfAnUnfairLockReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		a, err := lock.NewUnfair(srv.Session(t, "a"), "/u", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := a.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p := faultproxy.New(srv.Link("b").Dial)
		defer p.Close()
		s, err := client.Open(t.Context(), zktest.Servers, client.Options{Dial: p.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		var creates atomic.Int32
		p.Before(faultproxy.Match{Ops: faultproxy.Creates(), Path: "/u", Times: faultproxy.Always}, func(faultproxy.Request) { creates.Add(1) })
		b, err := lock.NewUnfair(s, "/u", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() { got <- b.Do(t.Context(), func(context.Context) error { return nil }) }()
		synctest.Wait()
		for n := range 5 {
			if _, err := srv.Session(t, "writer").Set(t.Context(), "/u", fmt.Append(nil, n), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := creates.Load(); n != 1 {
			t.Errorf("%d creates while the lock was held", n)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// A wait ends when Session.Close begins, and not when no server has answered it for CloseTimeout.
func TestAWaitOfAnUnfairLockEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		a, err := lock.NewUnfair(srv.Session(t, "a"), "/u", lock.Options{})
		must(t, nil, err)
		s := srv.Session(t, "b")
		b, err := lock.NewUnfair(s, "/u", lock.Options{})
		must(t, nil, err)
		held, err := a.Lock(t.Context())
		must(t, held, err)
		got := make(chan error)
		go func() {
			_, err := b.Lock(t.Context())
			got <- err
		}()
		synctest.Wait()
		srv.Link("b").Refuse()
		began := time.Now()
		go s.Close(t.Context())
		if err := <-got; !errors.Is(err, zk.ErrClosed) || time.Since(began) > 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A lock without a queue may have a name like those that kazoo gives to contenders.
func TestRevokeOfAnUnfairLockWithANameLikeKazoos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		u, err := lock.NewUnfair(srv.Session(t, "s"), "/locks/d41d8cd98f00b204e9800998ecf8427e", lock.Options{})
		must(t, nil, err)
		h, err := u.Lock(t.Context())
		must(t, h, err)
		admin := srv.Session(t, "admin")
		there, err := inspect.Contenders(t.Context(), admin, h.Node())
		must(t, nil, err)
		asked, err := inspect.Revoke(t.Context(), admin, there[0])
		must(t, nil, err)
		if !asked {
			t.Error("it was not asked")
		}
		<-h.Revoked()
		must(t, nil, h.Release(t.Context()))
	})
}
