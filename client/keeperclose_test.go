package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A sluggishConn takes a moment for each read.
type sluggishConn struct{ net.Conn }

func (c sluggishConn) Read(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return c.Conn.Read(b)
}

// Close may come at any moment of the opening of a session: it leaves no session, and so no ephemeral znode.
func TestKeeperClosedWhileOpening(t *testing.T) {
	for i := range 40 {
		after := time.Duration(i/2) * time.Millisecond / 2
		synctest.Test(t, func(t *testing.T) {
			patience, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 1 {
				cancel()
			}
			srv := zktest.New(t, zktest.Options{})
			link := srv.Link("kept")
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				nc, err := link.Dial(ctx, network, address)
				return sluggishConn{nc}, err
			}
			k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: dial})
			must(t, err)
			s, err := k.Session(t.Context())
			must(t, err)
			link.Expire()
			<-s.Done()
			time.Sleep(after)
			k.Close(patience)
			time.Sleep(time.Minute) // for the server to forget one whose handshake was given up
			if n := srv.Stats().Sessions; n != 0 {
				t.Errorf("closed after %v, with a context that ends: %v: %d sessions live on", after, i%2 == 1, n)
			}
		})
	}
}

// F26: Close waits for a session that is just being opened, and a caller that waits for it gets an error.
func TestF26_KeeperClosedWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		dialing := make(chan struct{}, 1)
		var all, dials atomic.Int32
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			defer dials.Add(-1)
			if all.Add(1) == 3 { // after the first session's connections, before and after it has expired
				dialing <- struct{}{}
				<-ctx.Done()
				time.Sleep(time.Second) // it takes its time to give up
				return nil, context.Cause(ctx)
			}
			return srv.Dial(ctx, network, address)
		}
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: dial})
		must(t, err)
		s, err := k.Session(t.Context())
		must(t, err)
		srv.Link("").Expire()
		<-s.Done()
		failed := make(chan error, 1)
		go func() {
			_, err := k.Session(t.Context())
			failed <- err
		}()
		<-dialing
		must(t, k.Close(t.Context()))
		if n := dials.Load(); n != 0 {
			t.Errorf("%d connections are still being made", n)
		}
		wantErr(t, "Session", <-failed, zk.ErrClosed)
	})
}

// A Keeper whose Close has no time left asks the ensemble to end the session all the same, so that its locks are free at once.
func TestKeeperClosedWithoutTimeEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		began := make(chan struct{})
		k.Go(func(ctx context.Context, s *client.Session) {
			close(began)
			<-ctx.Done()
			time.Sleep(time.Second) // longer than Close has time
		})
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		must(t, k.Close(ctx))
		if n := srv.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions live on", n)
		}
	})
}

// The context of a function ends when Close of its session begins, from when on the ensemble may free what the session holds.
func TestKeeperFunctionsEndWhenTheirSessionCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		ended := make(chan time.Time, 1)
		began := make(chan *client.Session)
		k.Go(func(ctx context.Context, s *client.Session) {
			select {
			case began <- s:
				<-ctx.Done()
				ended <- time.Now()
			case <-ctx.Done(): // the next session's
			}
		})
		s := <-began
		srv.Link("kept").Freeze()
		done := make(chan time.Time, 1)
		go func() { <-s.Done(); done <- time.Now() }()
		go s.Close(t.Context())
		if late := (<-ended).Sub(<-done); late > 0 {
			t.Errorf("the function's context ended %v after the session", late)
		}
		srv.Link("kept").Heal()
		k.Close(t.Context())
	})
}

// A nil context panics before anything has begun: where the panic is recovered, no session and no caller is left behind.
func TestANilContextBeginsNothing(t *testing.T) {
	panics := func(t *testing.T, what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s with a nil context did not panic", what)
			}
		}()
		f()
	}
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		var none context.Context
		panics(t, "Open", func() { client.Open(none, zktest.Servers, client.Options{Dial: srv.Link("a").Dial}) })
		time.Sleep(time.Minute)
		if n := srv.Stats().Sessions; n != 0 {
			t.Errorf("Open left %d sessions", n)
		}
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Link("b").Dial})
		must(t, err)
		panics(t, "Run", func() { k.Run(none, func(context.Context, *client.Session) error { return nil }) })
		began := time.Now()
		must(t, k.Close(t.Context()))
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// The context of a function of Session.Go ends when Done is closed, and not when the ensemble has answered.
func TestFunctionsOfASessionEndWithDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "a")
		ended := make(chan time.Time, 1)
		s.Go(func(ctx context.Context) {
			<-ctx.Done()
			ended <- time.Now()
		})
		srv.Link("a").Freeze()
		done := make(chan time.Time, 1)
		go func() { <-s.Done(); done <- time.Now() }()
		go s.Close(t.Context())
		if late := (<-ended).Sub(<-done); late > 0 {
			t.Errorf("the function's context ended %v after the session", late)
		}
		srv.Link("a").Heal()
	})
}

// A context may be of the user's own type, and ask the Keeper.
func TestAContextThatAsksTheKeeper(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	k := keep(t, srv)
	defer k.Close(t.Context())
	for _, want := range []error{nil, zk.ErrClosed} {
		ran := make(chan error, 1)
		go func() {
			ran <- k.Run(contextOfAKeeper{t.Context(), k}, func(context.Context, *client.Session) error { return nil })
		}()
		select {
		case err := <-ran:
			wantErr(t, "Run", err, want)
		case <-time.After(30 * time.Second):
			t.Fatal("Run waits for itself")
		}
		k.Close(t.Context())
	}
}

type contextOfAKeeper struct {
	context.Context
	k *client.Keeper
}

func (c contextOfAKeeper) Value(key any) any {
	c.k.Session(context.Background())
	return c.Context.Value(key)
}
