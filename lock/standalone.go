package lock

import (
	"context"
	"errors"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Standalone is a mutex with a session of its own, for code that has one lock and does not want to deal with
// sessions. It can take the place of a lock object of another library that connects, locks and calls back. With
// several locks, open one session with client.Open and make them with NewMutex: that costs the ensemble less.
//
// When the session ends, its holds end, with the cause. A hold never passes to another session, and nothing is
// locked again unasked: another session is opened, and waits for the next Lock.
//
// A Standalone is safe for use by many goroutines, which exclude each other like strangers.
type Standalone struct {
	path   string
	opt    DialOptions
	keeper *client.Keeper
	wg     sync.WaitGroup // goroutines; nothing is added once closed

	mu struct {
		sync.Mutex
		mutex  *Mutex // of the newest session that was asked for
		closed bool
	}
}

// DialOptions configure a Standalone. The zero value of every field means its default.
type DialOptions struct {
	Session client.Options
	Lock    Options

	// Acquired, if not nil, is called once for every hold, when the lock has been got, and Released, if not nil,
	// once for every hold, when it is over: Hold.Cause is then ErrReleased, or a *LostError that says how the
	// lock was lost. Released is called after Acquired of the same hold has returned; calls for different holds may
	// overlap. Each hold has a goroutine for its calls, so Lock does not wait for Acquired, and a hold may be over
	// before Acquired is called: see Hold.Context. Neither may call Close, which waits for them.
	Acquired, Released func(*Hold)
}

// Dial opens a session with the ensemble of a server list, as client.Open does, and returns the lock of
// the directory at path on it. ctx bounds the opening only. Close must be called.
func Dial(ctx context.Context, servers, path string, opt DialOptions) (*Standalone, error) {
	if _, err := opt.Lock.withDefaults(path); err != nil {
		return nil, err
	}
	keeper, err := client.Keep(ctx, servers, opt.Session)
	if err != nil {
		return nil, err
	}
	s := &Standalone{path: path, opt: opt, keeper: keeper}
	if _, err := s.current(ctx, "dial"); err != nil {
		return nil, ending.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Path returns the path of the lock's directory.
func (s *Standalone) Path() string { return s.path }

// Session returns the session of the newest Lock, or that of Dial before the first; it may be over.
func (s *Standalone) Session() *client.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.mutex.Session()
}

// Lock waits for the lock and returns a hold of it, as Mutex.Lock does, on a new session if the last one
// has ended. A session that ends meanwhile costs the place in the queue, and nothing else: Lock joins it anew
// with another. After Close the error is zk.ErrClosed.
func (s *Standalone) Lock(ctx context.Context) (*Hold, error) {
	return s.take(ctx, "lock", (*Mutex).Lock)
}

// TryLock is Lock if that takes no waiting, and otherwise returns a *BusyError.
func (s *Standalone) TryLock(ctx context.Context) (*Hold, error) {
	return s.take(ctx, "try lock", (*Mutex).TryLock)
}

// Start asks for the lock in the background and returns at once. Either DialOptions.Acquired is called with the
// hold, or failed with the error, once: because ctx has ended, the Standalone is closed or the lock cannot be had.
// Both may be nil. failed may be called before Start returns.
func (s *Standalone) Start(ctx context.Context, failed func(error)) {
	began := s.begin(func() {
		if _, err := s.Lock(ctx); err != nil && failed != nil {
			failed(err)
		}
	})
	if !began && failed != nil {
		failed(s.closedError("lock"))
	}
}

// Close ends the session and with it all holds. A nil error says that the lock is free for others;
// otherwise it will be after the session timeout. Close returns when all calls of Acquired, Released and
// failed have. Closing again is harmless.
func (s *Standalone) Close(ctx context.Context) error {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	err := s.keeper.Close(ctx)
	s.wg.Wait()
	return err
}

// take gets the lock by way of the session there is, and of others as long as sessions end.
func (s *Standalone) take(ctx context.Context, op string, way func(*Mutex, context.Context) (*Hold, error)) (*Hold, error) {
	for {
		m, err := s.current(ctx, op)
		if err != nil {
			return nil, err
		}
		h, err := way(m, ctx)
		switch {
		case err == nil && s.tell(h):
			return h, nil
		case err == nil || errors.Is(s.keeper.Err(), zk.ErrClosed): // closed while the lock was got, or before
			return nil, s.closedError(op)
		case m.Session().Err() == nil || ctx.Err() != nil:
			return nil, err
		}
	}
}

// current returns the mutex of a session that lives, as far as is known, and waits for one if there is none.
func (s *Standalone) current(ctx context.Context, op string) (*Mutex, error) {
	session, err := s.keeper.Session(ctx)
	switch {
	case errors.Is(s.keeper.Err(), zk.ErrClosed):
		return nil, s.closedError(op)
	case err != nil:
		return nil, &LockError{op, s.path, err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.mutex == nil || s.mu.mutex.Session() != session {
		m, err := NewMutex(session, s.path, s.opt.Lock)
		if err != nil {
			return nil, err
		}
		s.mu.mutex = m
	}
	return s.mu.mutex, nil
}

// closedError returns the error of an operation after Close.
func (s *Standalone) closedError(op string) error { return &LockError{op, s.path, zk.ErrClosed} }

// tell calls Acquired and Released for a hold. It reports false, and the hold is over, after Close.
func (s *Standalone) tell(h *Hold) bool {
	return s.begin(func() {
		if s.opt.Acquired != nil {
			s.opt.Acquired(h)
		}
		if s.opt.Released != nil {
			<-h.Done()
			s.opt.Released(h)
		}
	})
}

// begin runs f in a goroutine that Close waits for, or reports false after it.
func (s *Standalone) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.wg.Go(f)
	return true
}
