package election_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const path = "/app/leader"

// bubble runs a test in virtual time on a server of its own.
func bubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		f(t, srv)
		synctest.Wait() // what is removed in the background goes
		if left := srv.Tree(path); len(left) > 1 {
			t.Errorf("left behind:\n%v", left)
		}
	})
}

func mustElection(t *testing.T, s *client.Session, opt election.Options) *election.Election {
	t.Helper()
	e, err := election.New(s, path, opt)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var errWork = errors.New("the work's own error")

// Run ends with the work, if it returns in its term, and with its error.
func TestRunEndsWithTheWork(t *testing.T) {
	for _, want := range []error{nil, errWork} {
		bubble(t, func(t *testing.T, srv *zktest.Server) {
			err := election.Run(t.Context(), srv.Keeper(t, "a"), path, election.Options{}, func(ctx context.Context, term *election.Term) error {
				if ctx.Err() != nil || term.Token() == 0 || term.Remaining() <= 0 || term.Cause() != nil {
					t.Errorf("a term that has begun: %v, token %d, left %v, %v", ctx.Err(), term.Token(), term.Remaining(), term.Cause())
				}
				return want
			})
			if err != want {
				t.Errorf("Run = %v, want %v", err, want)
			}
		})
	}
}

// Work that returns ErrResigned in its term stands again.
func TestWorkThatResignsStandsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		terms := 0
		err := election.Run(t.Context(), srv.Keeper(t, "a"), path, election.Options{}, func(context.Context, *election.Term) error {
			terms++
			if terms < 3 {
				return fmt.Errorf("the configuration has changed: %w", election.ErrResigned)
			}
			return errWork
		})
		if err != errWork || terms != 3 {
			t.Errorf("Run = %v after %d terms, want %v after 3", err, terms, errWork)
		}
	})
}

// When its context ends, Run says so, whether it leads then or not.
func TestShutDownOfLeaderAndFollower(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		shutDown := errors.New("told to stop")
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan error, 2)
		for _, label := range []string{"a", "b"} {
			go func() {
				ended <- election.Run(ctx, srv.Keeper(t, label), path, election.Options{}, func(ctx context.Context, _ *election.Term) error {
					<-ctx.Done()
					return nil
				})
			}()
			synctest.Wait()
		}
		stop(shutDown)
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) || !errors.Is(err, shutDown) {
				t.Errorf("Run = %v, want the end of its context and the cause", err)
			}
		}
	})
}

// Work that ends its goroutine does not leave Run waiting.
func TestWorkThatVanishes(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		err := election.Run(t.Context(), srv.Keeper(t, "a"), path, election.Options{}, func(context.Context, *election.Term) error {
			runtime.Goexit()
			return nil
		})
		if err == nil {
			t.Error("Run = nil for work that never returned")
		}
	})
}

// F37, F38: whatever ends sessions, Run goes on under another, and leads again.
func TestF37_RunSurvivesItsSessions(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		const terms = 5
		var tokens []int64
		err := election.Run(t.Context(), srv.Keeper(t, "a"), path, election.Options{}, func(ctx context.Context, term *election.Term) error {
			tokens = append(tokens, term.Token())
			if len(tokens) == terms {
				return errWork
			}
			switch len(tokens) {
			case 1:
				srv.Link("a").Expire()
			case 2:
				srv.Link("a").Freeze()
				time.AfterFunc(time.Minute, srv.Link("a").Heal)
			case 3:
				srv.Crash()
				time.AfterFunc(time.Minute, srv.Restart)
			case 4:
				go term.Resign(context.Background()) // and stands again
			}
			<-ctx.Done()
			return nil
		})
		if err != errWork {
			t.Errorf("Run = %v", err)
		}
		for i := 1; i < len(tokens); i++ {
			if tokens[i] <= tokens[i-1] {
				t.Errorf("tokens do not grow: %v", tokens)
			}
		}
	})
}

// F38: another client deletes the leader's node, always. Campaigns follow each other at a pace, and when it
// stops there is a leader soon.
func TestF38_RunPacesItself(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := srv.Session(t, "admin")
		terms, calm := 0, false
		began := time.Now()
		var since time.Time
		err := election.Run(t.Context(), srv.Keeper(t, "a"), path, election.Options{}, func(ctx context.Context, term *election.Term) error {
			if calm {
				if d := time.Since(since); d > time.Second {
					t.Errorf("no candidate led for %v after the calm", d)
				}
				return nil // during the term, which ends Run
			}
			terms++
			calm = time.Since(began) > time.Minute
			if calm {
				since = time.Now()
			}
			admin.Delete(ctx, term.Node(), -1)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != nil {
			t.Errorf("Run = %v", err)
		}
		if terms > 300 {
			t.Errorf("%d terms in a minute", terms)
		}
	})
}

// Run ends when its context does: while it looks for a server, waits, leads, or pauses.
func TestRunEndsWithItsContext(t *testing.T) {
	for _, when := range []string{"connecting", "waiting", "leading", "pausing"} {
		bubble(t, func(t *testing.T, srv *zktest.Server) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errWork)
			defer cancel()
			k := srv.Keeper(t, "a")
			admin := srv.Session(t, "admin")
			switch when {
			case "connecting":
				srv.Link("a").Expire()
				srv.Link("a").Refuse()
				synctest.Wait()
			case "waiting":
				term, err := mustElection(t, srv.Session(t, "other"), election.Options{}).Campaign(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer term.Resign(t.Context())
			}
			began := time.Now()
			err := election.Run(ctx, k, path, election.Options{}, func(ctx context.Context, term *election.Term) error {
				switch when {
				case "pausing":
					admin.Delete(ctx, term.Node(), -1) // as often as there is a term: pauses are long then
				case "leading":
				default:
					t.Errorf("%s: leads", when)
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if d := time.Since(began); !errors.Is(err, errWork) || d > 20*time.Second+250*time.Millisecond {
				t.Errorf("%s: Run = %v after %v", when, err, d)
			}
		})
	}
}

// Keeper.Close ends the work, and the session when the work has stopped: another candidate does not lead before.
func TestKeeperCloseHandsOver(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var working atomic.Int32
		work := func(ctx context.Context, _ *election.Term) error {
			if working.Add(1) > 1 {
				t.Error("two work at the same time")
			}
			<-ctx.Done()
			time.Sleep(2 * time.Second) // the work stops
			working.Add(-1)
			return ctx.Err()
		}
		leaders := []*client.Keeper{srv.Keeper(t, "a"), srv.Keeper(t, "b")}
		ran := make(chan error)
		waits := srv.Keeper(t, "c")
		for _, k := range append(leaders, waits) {
			go func() { ran <- election.Run(t.Context(), k, path, election.Options{}, work) }()
			synctest.Wait()
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		must(waits.Close(t.Context()))
		if err := <-ran; !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Run of a candidate that waits = %v", err)
		}
		for i, k := range leaders {
			if working.Load() != 1 {
				t.Errorf("before Close %d: %d work", i, working.Load())
			}
			closed := make(chan error, 1)
			go func() { closed <- k.Close(t.Context()) }()
			if err := <-ran; !errors.Is(err, zk.ErrClosed) {
				t.Errorf("Run %d = %v", i, err)
			}
			if err := <-closed; err != nil {
				t.Errorf("Close %d = %v", i, err)
			}
			time.Sleep(time.Second) // the next one leads
		}
	})
}

// What another attempt would not cure ends Run.
func TestRunEndsWhenRefused(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		noWork := func(context.Context, *election.Term) error {
			t.Error("leads")
			return nil
		}
		for name, run := range map[string]func() error{
			"no keeper": func() error {
				return election.Run(t.Context(), nil, path, election.Options{}, noWork)
			},
			"no work": func() error {
				return election.Run(t.Context(), srv.Keeper(t, "c"), path, election.Options{}, nil)
			},
			"a keeper that is closed": func() error {
				k := srv.Keeper(t, "b")
				k.Close(t.Context())
				return election.Run(t.Context(), k, path, election.Options{}, noWork)
			},
			"a path": func() error {
				return election.Run(t.Context(), srv.Keeper(t, "a"), "/", election.Options{}, noWork)
			},
			"a margin": func() error {
				return election.Run(t.Context(), srv.Keeper(t, "a"), path, election.Options{Margin: time.Hour}, noWork)
			},
			"an ACL": func() error {
				return election.Run(t.Context(), srv.Keeper(t, "a"), path, election.Options{Lock: lock.Options{ACL: []zk.ACL{{Perms: zk.PermAll, Scheme: "no", ID: "such"}}}}, noWork)
			},
		} {
			if err := run(); err == nil {
				t.Errorf("%s: Run = nil", name)
			}
		}
	})
}

// F39: work that goes on after its term ends Run, with an error that says so, and nothing is begun beside it.
func TestF39_RunDoesNotLeadBesideOldWork(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		stopped := make(chan struct{})
		terms := 0
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := election.Run(ctx, srv.Keeper(t, "a"), path, election.Options{Grace: time.Second}, func(context.Context, *election.Term) error {
			terms++
			srv.Link("a").Expire()
			<-stopped
			return nil
		})
		if d := time.Since(began); !errors.Is(err, election.ErrOverran) || !errors.Is(err, lock.ErrLost) || d > 2*time.Second {
			t.Errorf("Run = %v after %v, want ErrOverran", err, d)
		}
		if terms != 1 {
			t.Errorf("%d terms", terms)
		}
		close(stopped)
	})
}

// A cut-off leader is told to stop by the margin before its deadline, and what it says is left agrees.
func TestF39_MarginBeforeTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		const margin = 3 * time.Second
		term, err := mustElection(t, s, election.Options{Margin: margin}).Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if term.Cause() != nil {
			t.Fatalf("the term ended with %v", term.Cause())
		}
		srv.Link("a").Freeze()
		began, left := time.Now(), term.Remaining()
		<-term.Done()
		if d := time.Since(began); d != left || d > s.Timeout()*2/3-margin || d == 0 {
			t.Errorf("the term ended after %v, what was left was %v", d, left)
		}
		if !errors.Is(term.Cause(), lock.ErrDeadline) || term.Remaining() != 0 {
			t.Errorf("the term ended with %v, left %v", term.Cause(), term.Remaining())
		}
		srv.Link("a").Heal()
		err = term.Resign(t.Context())
		if !errors.Is(err, lock.ErrLost) {
			t.Errorf("Resign after a loss = %v", err)
		}
		if again := term.Resign(t.Context()); again != err {
			t.Errorf("Resign again = %v, was %v", again, err)
		}
	})
}

// A term that was handed over before is no term in doubt, also when it is resigned again with a context that has ended.
func TestResignAgainWithAContextThatHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		term, err := mustElection(t, srv.Session(t, "a"), election.Options{}).Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := term.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 {
			if err := term.Resign(ctx); err != nil {
				t.Fatalf("Resign again = %v", err)
			}
		}
	})
}

// A term that ends because no server can be reached says why none can.
func TestTermSaysWhyItWasCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		term, err := mustElection(t, srv.Session(t, "a"), election.Options{}).Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Link("a").Refuse()
		<-term.Done()
		if err := term.Cause(); !errors.Is(err, lock.ErrDeadline) || !strings.Contains(err.Error(), "in time (no connection: 127.0.0.1:1 hung up; since then 127.0.0.1:1: ") {
			t.Errorf("the term ended with %v", err)
		}
		srv.Link("a").Heal()
		if err := term.Resign(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Resign = %v", err)
		}
	})
}

// F39: a leader that works without Do is told to stop, and the connection is back at once. Its node stays
// until it resigns, or the grace is over.
func TestF39_TheNodeStaysUntilResign(t *testing.T) {
	const margin, grace, needs = 3 * time.Second, 6 * time.Second, 2 * time.Second
	for _, resigns := range []bool{true, false} {
		bubble(t, func(t *testing.T, srv *zktest.Server) {
			opt := election.Options{Margin: margin, Grace: grace}
			first, err := mustElection(t, srv.Session(t, "a"), opt).Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan *election.Term, 1)
			go func() {
				term, err := mustElection(t, srv.Session(t, "b"), opt).Campaign(t.Context())
				if err != nil {
					t.Error(err)
				}
				next <- term
			}()
			srv.Link("a").Freeze()
			<-first.Done()
			srv.Link("a").Heal()
			began := time.Now()
			want := grace
			if resigns {
				want = needs
				time.AfterFunc(needs, func() { first.Resign(context.Background()) })
			}
			term := <-next
			if d := time.Since(began); d < want || d > want+time.Second {
				t.Errorf("resigns %v: another led after %v, want %v", resigns, d, want)
			}
			if err := term.Resign(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A leader that works under the hold of another lock, and hands over when that is lost, has lost no term.
func TestLeadUnderALockThatIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		m, err := lock.NewMutex(srv.Session(t, "other"), "/other", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		hold, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = mustElection(t, srv.Session(t, "a"), election.Options{}).Lead(hold.Context(), func(ctx context.Context, _ *election.Term) error {
			srv.Link("other").Expire()
			<-ctx.Done()
			return nil
		})
		if err != nil || hold.Cause() == nil {
			t.Errorf("Lead = %v, want nil; the other lock: %v", err, hold.Cause())
		}
	})
}

// Resign does not take longer than its context, and the hand-over goes on without it.
func TestResignIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		e := mustElection(t, s, election.Options{})
		term, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Link("a").Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := term.Resign(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lock.ErrReleasePending) || time.Since(began) != time.Second {
			t.Errorf("Resign = %v after %v", err, time.Since(began))
		}
		srv.Link("a").Heal()
		if err := term.Resign(t.Context()); err != nil {
			t.Errorf("Resign = %v", err)
		}
	})
}

// A caller of Watch may panic over what it sees, and recover, without leaving a watch.
func TestWatchPanics(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		e := mustElection(t, srv.Session(t, "a"), election.Options{})
		func() {
			defer func() { recover() }()
			for range e.Watch(t.Context()) {
				panic("enough of it")
			}
		}()
		time.Sleep(time.Second)
		if n := srv.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

// A caller of Watch sees the end of its session, and may stop when it likes, without leaving a watch.
func TestWatchEnds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		e := mustElection(t, s, election.Options{})
		for c, err := range e.Watch(t.Context()) {
			if err != nil || c.Node != "" {
				t.Errorf("no candidate is there: %+v, %v", c, err)
			}
			break
		}
		time.Sleep(time.Second)
		if n := srv.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left", n)
		}
		var last error
		srv.Link("a").Expire()
		for _, err := range e.Watch(t.Context()) {
			last = err
		}
		if !errors.Is(last, zk.ErrSessionExpired) {
			t.Errorf("the watch ended with %v", last)
		}
	})
}

// Watch ends when Session.Close begins, and not when no server has answered it for CloseTimeout.
func TestWatchEndsWithClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		e := mustElection(t, s, election.Options{})
		var last error
		var began time.Time
		for _, err := range e.Watch(t.Context()) {
			last = err
			if err == nil {
				srv.Link("a").Refuse()
				began = time.Now()
				go s.Close(t.Context())
			}
		}
		if took := time.Since(began); !errors.Is(last, zk.ErrClosed) || took > 100*time.Millisecond {
			t.Errorf("the watch ended after %v with %v", took, last)
		}
	})
}

// F46: a restarted server grants a shorter timeout to a session that goes on. Its terms last all the same: the margin is
// reckoned from the timeout that is in force.
func TestF46_TermsLastUnderAShorterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := 30 * time.Second
		srv := zktest.New(t, zktest.Options{Server: func(o *server.Options) { o.MaxSessionTimeout = most }})
		s, err := srv.Link("a").Open(t.Context(), client.Options{SessionTimeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		e := mustElection(t, s, election.Options{Margin: 10 * time.Second}) // a third of 30 s
		most = 6 * time.Second
		srv.Restart()
		if err := s.Sync(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		term, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Timeout() != 6*time.Second {
			t.Fatalf("the timeout is %v, this test wants 6s", s.Timeout())
		}
		time.Sleep(time.Minute)
		if err := term.Cause(); err != nil {
			t.Errorf("the term ended with %v", err)
		}
		if err := term.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Lead without work is refused at once, and not when it leads.
func TestLeadWithoutWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		err := mustElection(t, srv.Session(t, "a"), election.Options{}).Lead(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "there is no function work") {
			t.Errorf("Lead = %v", err)
		}
	})
}
