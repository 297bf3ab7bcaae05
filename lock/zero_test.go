package lock_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A lock without a session, and one that was not made by its function, fail with an error that says what to do.
func TestLocksThatWereNotMade(t *testing.T) {
	for name, make := range map[string]func() error{
		"NewMutex":            func() error { _, err := lock.NewMutex(nil, "/a", lock.Options{}); return err },
		"NewRWMutex":          func() error { _, err := lock.NewRWMutex(nil, "/a", lock.Options{}); return err },
		"NewSemaphore":        func() error { _, err := lock.NewSemaphore(nil, "/a", 1, lock.Options{}); return err },
		"NewCuratorSemaphore": func() error { _, err := lock.NewCuratorSemaphore(nil, "/a", 1, lock.Options{}); return err },
		"NewUnfair":           func() error { _, err := lock.NewUnfair(nil, "/a", lock.Options{}); return err },
		"inspect.Look":        func() error { _, err := inspect.Look(t.Context(), nil, "/a"); return err },
		"inspect.Contenders":  func() error { _, err := inspect.Contenders(t.Context(), nil, "/a"); return err },
		"inspect.LookAll":     func() error { _, err := inspect.LookAll(t.Context(), nil, "/a"); return err },
		"inspect.Watch":       func() error { return last(inspect.Watch(t.Context(), nil, "/a")) },
		"inspect.WatchAll":    func() error { return last(inspect.WatchAll(t.Context(), nil, "/a")) },
		"inspect.Deadlocks":   func() error { _, err := inspect.Deadlocks(t.Context(), nil, "/a"); return err },
		"inspect.Break":       func() error { _, err := inspect.Break(t.Context(), nil, lock.Contender{Node: "/a"}); return err },
		"inspect.Revoke":      func() error { _, err := inspect.Revoke(t.Context(), nil, lock.Contender{Node: "/a"}); return err },
		"election.New":        func() error { _, err := election.New(nil, "/a", election.Options{}); return err },
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), "client.Open") || !strings.Contains(err.Error(), " /a: ") {
			t.Errorf("%s without a session: %v", name, err)
		}
	}
	var m lock.Mutex
	var rw lock.RWMutex
	var sem lock.Semaphore
	var u lock.Unfair
	work := func(context.Context) error { return nil }
	for name, call := range map[string]func(context.Context) error{
		"Mutex.Lock":           single(m.Lock),
		"Mutex.TryLock":        single(m.TryLock),
		"Mutex.Do":             func(ctx context.Context) error { return m.Do(ctx, work) },
		"RWMutex.Lock":         single(rw.Lock),
		"RWMutex.RLock":        single(rw.RLock),
		"Reader.Lock":          single(rw.Reader().Lock),
		"Writer.TryLock":       single(rw.TryLock),
		"Semaphore.Acquire":    single(sem.Acquire),
		"Semaphore.TryAcquire": single(sem.TryAcquire),
		"Semaphore.AcquireN":   func(ctx context.Context) error { _, err := sem.AcquireN(ctx, 2); return err },
		"Semaphore.SetPermits": func(ctx context.Context) error { return sem.SetPermits(ctx, 2) },
		"Unfair.Lock":          single(u.Lock),
		"Unfair.TryLock":       single(u.TryLock),
		"NewAll of a mutex":    func(context.Context) error { _, err := lock.NewAll(&m); return err },
		"NewAll of a writer":   func(context.Context) error { _, err := lock.NewAll(&rw); return err },
		"NewAll of a reader":   func(context.Context) error { _, err := lock.NewAll(rw.Reader()); return err },
		"NewAll of permits":    func(context.Context) error { _, err := lock.NewAll(sem.Permits(2)); return err },
		"NewAll of an unfair":  func(context.Context) error { _, err := lock.NewAll(&u); return err },
	} {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "NewMutex") || strings.Contains(err.Error(), " : ") {
			t.Errorf("%s of a zero value: %v", name, err)
		}
	}
	var e election.Election
	for name, call := range map[string]func(context.Context) error{
		"Campaign":   func(ctx context.Context) error { _, err := e.Campaign(ctx); return err },
		"Leader":     func(ctx context.Context) error { _, err := e.Leader(ctx); return err },
		"Candidates": func(ctx context.Context) error { _, err := e.Candidates(ctx); return err },
		"Watch":      func(ctx context.Context) error { return last(e.Watch(ctx)) },
	} {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "make one with New") {
			t.Errorf("%s of a zero election: %v", name, err)
		}
	}
	for name, h := range map[string]*lock.Hold{"zero": {}, "nil": nil} {
		unusable(t, name+" Hold", h)
		if err := h.Downgrade(t.Context()); err == nil {
			t.Errorf("Downgrade of a %s Hold: no error", name)
		}
		if h.Token() != 0 || h.Node() != "" {
			t.Errorf("a %s Hold has token %d and node %q", name, h.Token(), h.Node())
		}
		h.Check() // is refused when it is sent
	}
	for name, h := range map[string]*lock.Holds{"zero": {}, "nil": nil} {
		unusable(t, name+" Holds", h)
		if len(h.All()) != 0 || len(h.Of("/a")) != 0 || len(h.Tokens()) != 0 {
			t.Errorf("%s Holds have holds", name)
		}
	}
	for name, term := range map[string]*election.Term{"zero": {}, "nil": nil} {
		unusable(t, name+" Term", termHold{term})
		if term.Token() != 0 || term.Node() != "" {
			t.Errorf("a %s Term has token %d and node %q", name, term.Token(), term.Node())
		}
		term.Check()
	}
	for name, nothing := range map[string]lock.Member{
		"mutex": (*lock.Mutex)(nil), "unfair": (*lock.Unfair)(nil), "wrapper": (*loud)(nil), "permits": (*lock.Semaphore)(nil).Permits(1),
	} {
		if _, err := lock.NewAll(nothing); err == nil {
			t.Errorf("NewAll of a nil %s: no error", name)
		}
	}
	if m.Path() != "" || rw.Path() != "" || u.Path() != "" || m.Session() != nil || sem.Session() != nil || u.Session() != nil {
		t.Error("a zero value has a path or a session")
	}
}

// unusable checks that a value that no lock has returned is over, and says so.
func unusable(t *testing.T, name string, h interface {
	Done() <-chan struct{}
	Cause() error
	Context() context.Context
	Revoked() <-chan struct{}
	Remaining() time.Duration
	Release(context.Context) error
	Do(context.Context, func(context.Context) error) error
}) {
	t.Helper()
	select {
	case <-h.Done():
	default:
		t.Errorf("a %s is not over", name)
	}
	select {
	case <-h.Revoked():
		t.Errorf("a %s was asked for", name)
	default:
	}
	worked := func(context.Context) error { t.Errorf("work ran under a %s", name); return nil }
	for call, err := range map[string]error{
		"Cause": h.Cause(), "Context": context.Cause(h.Context()), "Release": h.Release(t.Context()), "Do": h.Do(t.Context(), worked),
	} {
		if err == nil || !strings.Contains(err.Error(), "returned cannot be used") && !strings.Contains(err.Error(), "did not return cannot be used") {
			t.Errorf("%s of a %s: %v", call, name, err)
		}
	}
	if h.Remaining() != 0 {
		t.Errorf("a %s has %v left", name, h.Remaining())
	}
}

// A termHold is a Term with the methods of a Hold.
type termHold struct{ *election.Term }

func (h termHold) Release(ctx context.Context) error { return h.Resign(ctx) }
func (h termHold) Do(_ context.Context, f func(context.Context) error) error {
	return h.Term.Work(f)
}

// last returns the error that a sequence ends with.
func last[T any](seq iter.Seq2[T, error]) (err error) {
	for _, err = range seq {
	}
	return err
}

func single(f func(context.Context) (*lock.Hold, error)) func(context.Context) error {
	return func(ctx context.Context) error { _, err := f(ctx); return err }
}

// A semaphore that adopts takes the stored number, and stores its own where there is none.
func TestAdoptPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		semaphore := func(n int, adopt bool) *lock.Semaphore {
			m, err := lock.NewSemaphore(s, "/sem", n, lock.Options{AdoptPermits: adopt})
			must(t, nil, err)
			return m
		}
		both, err := semaphore(2, true).AcquireN(t.Context(), 2)
		must(t, nil, err)
		if _, err := semaphore(5, false).TryAcquire(t.Context()); !errors.Is(err, lock.ErrPermitsConflict) {
			t.Errorf("five permits where two are stored: %v, want ErrPermitsConflict", err)
		}
		if _, err := semaphore(5, true).TryAcquire(t.Context()); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("a third permit: %v, want ErrBusy", err)
		}
		if n := len(both.All()); n != 2 || len(both.Of("/sem")) != 2 || both.Tokens()["/sem"] != both.All()[0].Token() {
			t.Errorf("%d holds", n)
		}
		must(t, nil, both.All()[1].Release(t.Context()))
		<-both.Done()
		h, err := semaphore(5, true).TryAcquire(t.Context())
		must(t, h, err)
		must(t, nil, h.Release(t.Context()))
		must(t, nil, both.Release(t.Context()))
	})
}

// A loss has a reason from a small set, and an error that names the lock once.
func TestLossReason(t *testing.T) {
	for cause, want := range map[error]lock.LossReason{
		lock.ErrNodeDeleted: lock.LossNodeDeleted,
		lock.ErrDeadline:    lock.LossDeadline,
		&client.SessionError{ID: 1, Err: zk.ErrSessionExpired}: lock.LossSessionExpired,
		&client.SessionError{ID: 1, Err: zk.ErrClosed}:         lock.LossSessionClosed,
		&client.SessionError{ID: 1, Err: zk.ErrAuthFailed}:     lock.LossOther,
	} {
		lost := &lock.LostError{Path: "/a", Cause: cause}
		if got := lost.Reason(); got != want {
			t.Errorf("%v: reason %q, want %q", lost, got, want)
		}
	}
	lost := &lock.LostError{Path: "/a", Cause: lock.ErrDeadline}
	for err, want := range map[error]string{
		&lock.LockError{Op: "lock", Path: "/a", Err: lost}:                                                             "lock /a: lost: no heartbeat was answered in time",
		&lock.LockError{Op: "read lock", Path: "/a", Err: lost}:                                                        "read lock /a: lost: no heartbeat was answered in time",
		&lock.LockError{Op: "lock", Path: "/b", Err: lost}:                                                             "lock /b: lock /a lost: no heartbeat was answered in time",
		&lock.LockError{Op: "lock", Path: "/a", Err: &lock.LockError{Op: "lock", Path: "/ab", Err: lost}}:              "lock /a: lock /ab: lock /a lost: no heartbeat was answered in time",
		&lock.LockError{Op: "acquire", Path: "/a", Err: &lock.LockError{Op: "acquire", Path: "/a", Err: lock.ErrBusy}}: "acquire /a: lock is busy",
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// loud is a lock of the user's that embeds one of ours.
type loud struct {
	lock.Locker
	locked []string
}

func (l *loud) Lock(ctx context.Context) (*lock.Hold, error) {
	l.locked = append(l.locked, l.Path())
	return l.Locker.Lock(ctx)
}

// A wrapper of a lock is a Locker, and a member of an All.
func TestAWrapperIsALocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		m, err := lock.NewMutex(s, "/locks/a", lock.Options{})
		must(t, nil, err)
		u, err := lock.NewUnfair(s, "/locks/b", lock.Options{})
		must(t, nil, err)
		var wrapped lock.Locker = &loud{Locker: m}
		h, err := wrapped.Lock(t.Context())
		must(t, h, err)
		all, err := lock.NewAll(wrapped, u)
		must(t, nil, err)
		if _, err := all.TryLock(t.Context()); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("TryLock of all beside the wrapped one = %v, want ErrBusy", err)
		}
		must(t, nil, h.Release(t.Context()))
		several, err := all.Lock(t.Context())
		must(t, nil, err)
		if several.Of("/locks/a") == nil || wrapped.Session() != s {
			t.Errorf("holds of %v", all.Paths())
		}
		must(t, nil, several.Release(t.Context()))
	})
}
