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
// locked again unasked: the next Lock opens another session.
//
// A Standalone is safe for use by many goroutines, which exclude each other like strangers.
type Standalone struct {
	// Fixed by Dial.
	servers string
	path    string
	opt     DialOptions
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc

	opening chan struct{}  // holds a token while a call looks for a session
	wg      sync.WaitGroup // goroutines; nothing is added once closed

	mu struct {
		sync.Mutex
		mutex  *Mutex // of the newest session
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
	s := &Standalone{servers: servers, path: path, opt: opt, opening: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if _, err := s.current(ctx, "dial"); err != nil {
		s.cancel(nil)
		return nil, err
	}
	return s, nil
}

// Path returns the path of the lock's directory.
func (s *Standalone) Path() string { return s.path }

// Session returns the newest session; it may be over.
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
	m := s.mu.mutex
	s.mu.Unlock()
	s.cancel(zk.ErrClosed)
	var err error
	if m != nil {
		err = m.core.s.Close(ctx)
	}
	select {
	case s.opening <- struct{}{}: // no call opens another session any more
		<-s.opening
	case <-ctx.Done():
	}
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
		case err == nil || s.ctx.Err() != nil: // closed while the lock was got, or before
			return nil, s.closedError(op)
		case m.core.s.Err() == nil || ctx.Err() != nil || errors.Is(err, zk.ErrAuthFailed):
			return nil, err
		}
	}
}

// current returns the mutex of a session that lives, as far as is known, and opens one if there is none.
func (s *Standalone) current(ctx context.Context, op string) (*Mutex, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, &LockError{op, s.path, ending.Of(ctx)}
	case <-s.ctx.Done():
	}
	if s.ctx.Err() != nil { // several may have been ready
		return nil, s.closedError(op)
	}
	s.mu.Lock()
	m := s.mu.mutex
	s.mu.Unlock()
	if m != nil && m.core.s.Err() == nil {
		return m, nil
	}
	if m != nil {
		m.core.s.Close(ctx) // it is over, so this sends nothing
	}
	return s.open(ctx, op)
}

// open opens a session, which Close ends wherever that comes in between.
func (s *Standalone) open(ctx context.Context, op string) (*Mutex, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(zk.ErrClosed) })()
	session, err := client.Open(ctx, s.servers, s.opt.Session)
	switch {
	case err != nil && s.ctx.Err() != nil: // which errors.Is does not find in Open's error
		return nil, s.closedError(op)
	case err != nil:
		return nil, err
	}
	m, err := NewMutex(session, s.path, s.opt.Lock)
	if err == nil {
		s.mu.Lock()
		closed := s.mu.closed
		if !closed {
			s.mu.mutex = m
		}
		s.mu.Unlock()
		if !closed {
			return m, nil
		}
		err = s.closedError(op)
	}
	return nil, ending.Join(err, session.Close(context.WithoutCancel(ctx)))
}

// closedError returns the error of an operation after Close.
func (s *Standalone) closedError(op string) error { return &LockError{op, s.path, zk.ErrClosed} }

// tell calls those who want to know of a hold. It reports false, and the hold is over, after Close.
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
