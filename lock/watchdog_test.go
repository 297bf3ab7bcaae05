package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A session that is closed takes the holder's node along, and the server tells of that first. The holder is told of the
// session, whichever of the two its watchdog hears first; here it hears both at once, since it begins only then.
func TestAHolderIsToldThatItsSessionWasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		mutex := func(s *client.Session) *lock.Mutex {
			m, err := lock.NewMutex(s, "/locks/a", lock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		theirs := mutex(srv.Session(t, "theirs"))
		for range 2000 {
			held, err := theirs.Lock(t.Context())
			must(t, held, err)
			s, err := client.Open(t.Context(), zktest.Servers, client.Options{Dial: srv.Dial})
			if err != nil {
				t.Fatal(err)
			}
			granted := make(chan *lock.Hold, 1)
			go func() {
				h, err := mutex(s).Lock(t.Context()) // having waited, it watches its node already
				if err != nil {
					t.Error(err)
				}
				granted <- h
			}()
			synctest.Wait()
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			h := <-granted
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-h.Context().Done()
			if cause := h.Cause(); !errors.Is(cause, zk.ErrClosed) || errors.Is(cause, lock.ErrNodeDeleted) {
				t.Fatalf("lost for %v, want %v", cause, zk.ErrClosed)
			}
		}
	})
}

// A watchdog that has waited for room in the session still ends a hold at its deadline: a request for a watch waits until the
// connection breaks just before, and what it returns then must not put the next look off.
func TestAWatchdogThatWaitsForRoomEndsAHoldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		link := srv.Link("s")
		const timeout = 7500 * time.Millisecond // its lease ends while the third request for a watch waits, which may for a second
		s, err := link.Open(t.Context(), client.Options{SessionTimeout: timeout, InFlightMax: 1})
		must(t, nil, err)
		defer s.Close(t.Context())
		m, err := lock.NewMutex(s, "/a", lock.Options{})
		must(t, nil, err)
		h, err := m.Lock(t.Context())
		must(t, h, err)
		link.Freeze()
		go s.Exists(t.Context(), "/a") // takes the room
		deadline := time.Now().Add(h.Remaining())
		time.Sleep(h.Remaining() - 100*time.Millisecond)
		link.Refuse()
		<-h.Done()
		if late := time.Since(deadline); late > 20*time.Millisecond {
			t.Errorf("the hold ended %v after its deadline", late)
		}
		link.Heal()
	})
}

// The contexts of all holds, and of work under them, have ended before the ensemble is asked to free the locks of a session that is
// closed: another holder can begin as soon as it has heard.
func TestHoldsEndBeforeTheirSessionIsClosed(t *testing.T) {
	const holds = 300
	srv := zktest.New(t, zktest.Options{})
	ours, theirs := srv.Session(t, "ours"), srv.Session(t, "theirs")
	var held []context.Context
	for i := range holds {
		m, err := lock.NewMutex(ours, fmt.Sprintf("/locks/%d", i), lock.Options{})
		must(t, nil, err)
		a, err := lock.NewAll(m)
		must(t, nil, err)
		works := make(chan context.Context)
		work := func(ctx context.Context) error {
			works <- ctx
			<-ctx.Done()
			return context.Cause(ctx)
		}
		switch i % 3 {
		case 0:
			h, err := m.Lock(t.Context())
			must(t, h, err)
			held = append(held, h.Context())
		case 1:
			go m.Do(t.Context(), work)
			held = append(held, <-works)
		case 2:
			go a.Do(t.Context(), work)
			held = append(held, <-works)
		}
	}
	waits, still := make(chan struct{}), make(chan int, 1)
	began := sync.OnceFunc(func() { close(waits) })
	next, err := lock.NewMutex(theirs, "/locks/0", lock.Options{Hooks: lock.Hooks{
		Waiting: func(context.Context, string, lock.Place) { began() },
		Granted: func(context.Context, string, *lock.Hold) {
			n := 0
			for _, ctx := range held {
				if ctx.Err() == nil {
					n++
				}
			}
			still <- n
		},
	}})
	must(t, nil, err)
	go next.Lock(t.Context())
	<-waits
	must(t, nil, ours.Close(t.Context()))
	if n := <-still; n > 0 {
		t.Errorf("%d of %d holds still lived when the next holder began", n, holds)
	}
}

// A Logger that blocks, of the session or of a lock, keeps neither the ensemble from being asked to free the locks nor the hold of
// another lock from ending.
func TestALoggerBlocks(t *testing.T) {
	for _, end := range []string{"close", "freeze"} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			blocks := &blockingHandler{Handler: slog.DiscardHandler, blocked: make(chan struct{})}
			ours, err := srv.Link("ours").Open(t.Context(), client.Options{Logger: slog.New(blocks)})
			must(t, nil, err)
			theirs := srv.Session(t, "theirs")
			holds := map[string]*lock.Hold{}
			for path, logger := range map[string]*slog.Logger{"/locks/a": slog.New(blocks), "/locks/b": nil} {
				m, err := lock.NewMutex(ours, path, lock.Options{Logger: logger})
				must(t, nil, err)
				holds[path], err = m.Lock(t.Context())
				must(t, nil, err)
			}
			blocks.on.Store(true)
			_, err = inspect.Revoke(t.Context(), theirs, inspect.Contender{Node: holds["/locks/a"].Node()})
			must(t, nil, err)
			time.Sleep(time.Second)
			closed := make(chan error, 1)
			if end == "freeze" {
				srv.Link("ours").Freeze()
			} else {
				go func() { closed <- ours.Close(t.Context()) }()
			}
			next, err := lock.NewMutex(theirs, "/locks/b", lock.Options{})
			must(t, nil, err)
			began := time.Now()
			h, err := next.Lock(t.Context())
			must(t, h, err)
			if took := time.Since(began); end == "close" && took > time.Second {
				t.Errorf("the next holder began %v after Close", took)
			}
			for path, h := range holds {
				if h.Context().Err() == nil {
					t.Errorf("%s: the hold of %s still lives when the next holder begins", end, path)
				}
			}
			close(blocks.blocked)
			srv.Link("ours").Heal()
			if end == "close" {
				must(t, h, <-closed)
			}
			ours.Close(t.Context())
		})
	}
}

type blockingHandler struct {
	slog.Handler
	on      atomic.Bool
	blocked chan struct{}
}

func (h *blockingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *blockingHandler) Handle(context.Context, slog.Record) error {
	if h.on.Load() {
		<-h.blocked
	}
	return nil
}
