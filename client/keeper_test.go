package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// keep opens a keeper through the link called "kept", and closes it with the test.
func keep(t *testing.T, srv *zktest.Server) *client.Keeper {
	t.Helper()
	k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Link("kept").Dial})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	return k
}

func TestKeeperOpensAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		first, err := k.Session(t.Context())
		must(t, err)
		srv.Link("kept").Expire()
		<-first.Done()
		second, err := k.Session(t.Context())
		must(t, err)
		if second == first || second.ID() == first.ID() || second.Err() != nil {
			t.Errorf("after the expiry of %v the session is %v (%v)", first, second, second.Err())
		}
		if k.Err() != nil {
			t.Errorf("the keeper has ended: %v", k.Err())
		}
		must(t, k.Close(t.Context()))
		<-k.Done()
		_, err = k.Session(t.Context())
		wantErr(t, "Session after Close", err, zk.ErrClosed)
		wantErr(t, "Err", k.Err(), zk.ErrClosed)
		if err := k.Close(t.Context()); err != nil {
			t.Errorf("closing again: %v", err)
		}
	})
}

// A caller may overwrite its credentials once it has a Keeper: later sessions send what the first one sent.
func TestKeeperKeepsACopyOfTheCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		secret := []byte("bob:pw")
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Link("kept").Dial, Auth: []client.Auth{{Scheme: "digest", Credential: secret}}})
		must(t, err)
		t.Cleanup(func() { k.Close(context.Background()) })
		first, err := k.Session(t.Context())
		must(t, err)
		_, err = first.Create(t.Context(), "/private", nil, zk.Persistent, zk.CreatorACL())
		must(t, err)
		copy(secret, "eve:pw")
		srv.Link("kept").Expire()
		<-first.Done()
		second, err := k.Session(t.Context())
		must(t, err)
		_, _, err = second.Get(t.Context(), "/private")
		must(t, err)
	})
}

func TestKeeperSessionWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		s, err := k.Session(t.Context())
		must(t, err)
		srv.Link("kept").Expire()
		<-s.Done()
		srv.Link("kept").Refuse()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := k.Session(ctx); err == nil && got == s {
			t.Error("a session that is over was handed out")
		} else if err != nil {
			wantErr(t, "Session", err, context.DeadlineExceeded)
			var open *client.OpenError
			if !errors.As(err, &open) || len(open.Attempts) == 0 {
				t.Errorf("Session = %v, want an *OpenError that says what became of the attempts", err)
			}
		}
		srv.Link("kept").Heal()
		_, err = k.Session(t.Context())
		must(t, err)
	})
}

func TestKeeperRunBeginsAgainWithEachSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		var ids []int64
		err := k.Run(t.Context(), func(ctx context.Context, s *client.Session) error {
			ids = append(ids, s.ID())
			if len(ids) == 3 {
				return nil
			}
			srv.Link("kept").Expire()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		must(t, err)
		if len(ids) != 3 || ids[0] == ids[1] || ids[1] == ids[2] {
			t.Errorf("the function was called with the sessions %x, want three different ones", ids)
		}

		ours := errors.New("ours")
		calls := 0
		err = k.Run(t.Context(), func(context.Context, *client.Session) error { calls++; return ours })
		if !errors.Is(err, ours) || calls != 1 {
			t.Errorf("an error while the session lives: %v after %d calls, want it after one", err, calls)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		err = k.Run(ctx, func(ctx context.Context, _ *client.Session) error {
			cancel(ours)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		wantErr(t, "Run whose context ends", err, ours)

		inside := make(chan struct{})
		go func() {
			<-inside
			k.Close(context.Background())
		}()
		err = k.Run(t.Context(), func(ctx context.Context, _ *client.Session) error {
			close(inside)
			<-ctx.Done()
			return ctx.Err()
		})
		wantErr(t, "Run during Close", err, zk.ErrClosed)
	})
}

func TestKeeperGoRunsOncePerSessionAndTidiesUpBeforeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		s, err := k.Session(t.Context())
		must(t, err)
		_, err = s.Create(t.Context(), "/trace", nil, zk.Persistent, nil)
		must(t, err)
		var begun, ended, short atomic.Int32
		k.Go(func(ctx context.Context, s *client.Session) {
			begun.Add(1)
			<-ctx.Done()
			if s.Err() == nil {
				must(t, s.Delete(context.WithoutCancel(ctx), "/trace", zk.AnyVersion))
			}
			ended.Add(1)
		})
		k.Go(func(context.Context, *client.Session) { short.Add(1) })
		for want := int32(1); want <= 3; want++ {
			synctest.Wait()
			time.Sleep(time.Minute)
			if begun.Load() != want || short.Load() != want || ended.Load() != want-1 {
				t.Fatalf("session %d: begun %d, ended %d, short %d", want, begun.Load(), ended.Load(), short.Load())
			}
			if want < 3 {
				srv.Link("kept").Expire()
				time.Sleep(time.Minute)
			}
		}
		must(t, k.Close(t.Context()))
		if ended.Load() != 3 {
			t.Error("Close did not wait for the functions")
		}
		if len(srv.Tree("/trace")) > 0 {
			t.Error("the session was closed before the functions had returned")
		}
		if k.Go(func(context.Context, *client.Session) { t.Error("called after Close") }) {
			t.Error("Go after Close reports true")
		}
	})
}

// What Run calls may have to tidy up under its session, and mostly works under a lock: the session lives until Run has returned.
func TestKeeperCloseWaitsForRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, zktest.New(t, zktest.Options{}))
		ran := make(chan error)
		go func() {
			ran <- k.Run(t.Context(), func(ctx context.Context, s *client.Session) error {
				<-ctx.Done()
				time.Sleep(3 * time.Second) // the work stops
				wantErr(t, "the cause of the function's end", context.Cause(ctx), zk.ErrClosed)
				return s.Sync(context.WithoutCancel(ctx), "/")
			})
		}()
		synctest.Wait()
		must(t, k.Close(t.Context()))
		must(t, <-ran)
	})
}

// A function of Run may call Close, which then waits for it no longer than CloseTimeout.
func TestKeeperCloseByAFunctionOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, zktest.New(t, zktest.Options{}))
		began := time.Now()
		must(t, k.Run(t.Context(), func(ctx context.Context, s *client.Session) error { return k.Close(context.WithoutCancel(ctx)) }))
		if took := time.Since(began); took > 5*time.Second+100*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		wantErr(t, "Run after Close", k.Run(t.Context(), nil), zk.ErrClosed)
	})
}

func TestKeeperCloseEndsTheSessionUnderAFunctionThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		k.Go(func(_ context.Context, s *client.Session) { <-s.Done() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		k.Close(ctx)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// The first session's errors are the caller's; those of the next ones are tried again.
func TestKeeperAndGrantsOutOfBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		_, err := client.Keep(t.Context(), "no:port:at all", client.Options{})
		if err == nil {
			t.Error("a server list that is none was accepted")
		}
		opt := client.Options{Dial: srv.Link("kept").Dial, SessionTimeout: time.Minute, SessionTimeoutMin: time.Minute}
		_, err = client.Keep(t.Context(), zktest.Servers, opt)
		if err == nil {
			t.Error("a grant below the bound was accepted")
		}
	})
}

// A later session with such a grant is tried again, and the error of a caller that waits for it says why there is none.
func TestKeeperSaysWhyALaterGrantIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			p.hello()
			if p.number > 1 {
				p.grant(fakeSession+int64(p.number), 4*time.Second) // to a resume it says that the session is over
				return
			}
			p.grant(fakeSession, 10*time.Second)
			p.serve(nil)
		})
		k, err := client.Keep(t.Context(), fakeAddr, client.Options{Dial: n.Dialer("client"), SessionTimeoutMin: 8 * time.Second})
		must(t, err)
		defer k.Close(t.Context())
		s, err := k.Session(t.Context())
		must(t, err)
		n.Link("client", "").Cut()
		<-s.Done()
		_, err = k.Session(short(t, 4500*time.Millisecond)) // between two attempts
		if err == nil || !contains(err.Error(), "zk:2181 grants a timeout of 4s, at least 8s is required") || errors.Is(err, zk.ErrClosed) {
			t.Errorf("Session: %v", err)
		}
	})
}

// Servers that end every session at once are not asked for another one again and again: a session is a write of a quorum's.
func TestKeeperPausesWhenSessionsDoNotLast(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		brief := func(p *peer) {
			if p.number > 100 { // too many: the test has failed, and shall end
				p.open()
				p.serve(nil)
			}
			if req, ok := p.hello(); ok && req.SessionID == 0 {
				p.grant(fakeSession+int64(p.number), 10*time.Second)
			} else {
				p.grant(0, 0) // the session has expired
			}
		}
		servers := []*fake{serveFake(t, n, fakeAddr, brief), serveFake(t, n, "other:2181", brief)}
		k, err := client.Keep(t.Context(), fakeAddr+",other:2181", client.Options{Dial: n.Dialer("client")})
		must(t, err)
		defer k.Close(t.Context())
		time.Sleep(20 * time.Second)
		if asked := servers[0].connections() + servers[1].connections(); asked < 20 || asked > 50 {
			t.Errorf("%d connections in 20 s, want two for a session and a second", asked)
		}
	})
}

func TestKeeperEndsWithRefusedCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		s, err := k.Session(t.Context())
		must(t, err)
		s.AddAuth(t.Context(), client.Auth{Scheme: "unheard of", Credential: []byte("x")})
		<-k.Done()
		wantErr(t, "Err", k.Err(), zk.ErrAuthFailed)
		_, err = k.Session(t.Context())
		wantErr(t, "Session", err, zk.ErrAuthFailed)
	})
}

// A function of Session.Go that outlives its session does not hold up the next one, for which it may wait itself.
func TestTheNextSessionWaitsForNoFunctionOfTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv)
		first, err := k.Session(t.Context())
		must(t, err)
		next := make(chan *client.Session, 1)
		first.Go(func(ctx context.Context) {
			<-ctx.Done()
			limited, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			s, _ := k.Session(limited)
			next <- s
			time.Sleep(time.Minute)
		})
		srv.Link("kept").Expire()
		began := time.Now()
		if s := <-next; s == nil || s == first || s.Err() != nil {
			t.Errorf("the next session is %v", s)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the next session came after %v", took)
		}
		must(t, k.Close(t.Context()))
		if took := time.Since(began); took < time.Minute {
			t.Errorf("Close has returned after %v, while the function ran", took)
		}
	})
}
