package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Keeper keeps a session open: when the session is over, the Keeper opens another one. Run and Go call a function once
// for each session, so a program says once what it does with a session, and Close ends all of it.
//
// A Keeper never moves anything from one session to the next: locks, watches and ephemeral znodes end with their
// session. What is to be there again is made again by the function, on the session that it is called with.
//
// A refused credential ends the Keeper, because the next session would be refused as well. A Keeper is safe for use by many goroutines.
type Keeper struct {
	// Fixed by Keep.
	servers string
	opt     Options
	ctx     context.Context // ends with Close, or with a refused credential; its cause says which
	cancel  context.CancelCauseFunc

	// Nothing is added to these once ctx has ended, but by what is counted in running.
	running sync.WaitGroup // replace, the ends of sessions, and what Go started
	joined  sync.WaitGroup // calls of Run, and of what else has joined

	// mu is never held across I/O or a call of the user's.
	mu struct {
		sync.Mutex
		session *Session      // the newest one; it may be over
		opening *Session      // the last one that looked for a server
		changed chan struct{} // closed when session is replaced
	}
}

const (
	// keeperPause is how long a Keeper waits after an attempt to open a session that failed for another reason than time, such as a
	// granted timeout outside the bounds of the options, and after a session that has not lasted for so long.
	keeperPause = time.Second
	// keeperCloseLimit is how long the ensemble has to answer a Close that has no time left.
	keeperCloseLimit = time.Second
)

// Keep opens a session with the ensemble of a server list, as Open does, and keeps one open until Close. ctx bounds the
// first opening only. Close must be called.
func Keep(ctx context.Context, servers string, opt Options) (*Keeper, error) {
	s, err := Open(ctx, servers, opt)
	if err != nil {
		return nil, err
	}
	k := &Keeper{servers: servers, opt: s.opt}
	k.ctx, k.cancel = context.WithCancelCause(context.Background())
	k.mu.session, k.mu.opening, k.mu.changed = s, s, make(chan struct{})
	k.running.Go(k.replace)
	return k, nil
}

// Session returns the session, and waits for the next one while there is none. If ctx ends first, the error is an *OpenError
// that says what became of the attempt at each server. After Close the error is zk.ErrClosed. The session can end at any
// moment; Keeper.Run is for work that has to begin again then.
func (k *Keeper) Session(ctx context.Context) (*Session, error) {
	for {
		k.mu.Lock()
		s, opening, changed := k.mu.session, k.mu.opening, k.mu.changed
		k.mu.Unlock()
		switch {
		case k.Err() != nil:
			return nil, &OpError{Op: "session", Err: k.Err()}
		case s.Err() == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, opening.openError(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-k.Done():
		}
	}
}

// Run calls f with the session, and again with the next one whenever f fails because its session is over. It returns nil once f
// does. It returns the error of f if f fails while the session lives or after ctx has ended, the reason of ctx if that ends while
// there is no session, and zk.ErrClosed after Close. The context of f ends with ctx, with the session and with the Keeper.
//
// A lock is lost before its session is known to be over. If the error of f is such a loss (lock.ErrLost), Run asks the servers
// whether the session lives, which lasts until one can be reached, or ctx or the Keeper ends.
func (k *Keeper) Run(ctx context.Context, f func(ctx context.Context, s *Session) error) error {
	work, leave, err := k.join(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for {
		s, err := k.Session(ctx)
		if err != nil {
			return err
		}
		err = invoke(work, s, f)
		if err != nil && bridge.IsLoss(err) {
			s.Sync(work, "/") // its own outcome does not matter
		}
		if err == nil || ctx.Err() != nil || s.Err() == nil && k.Err() == nil {
			return err
		}
	}
}

// Go calls f with the session on a goroutine that belongs to the Keeper, and with the next session once that one is
// over and f has returned, until Close. A call of f that returns earlier is not repeated on the same session. The
// context of f ends with its session. Go reports false, and calls nothing, after Close.
//
// While a function returns because of Close, it may still use the session for what it has to tidy away.
func (k *Keeper) Go(f func(ctx context.Context, s *Session)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Err() != nil {
		return false
	}
	k.running.Go(func() {
		k.Run(k.ctx, func(ctx context.Context, s *Session) error {
			f(ctx, s)
			<-ctx.Done()
			return ctx.Err()
		})
	})
	return true
}

// join has Close wait for the caller until it calls leave, and returns a context for it, which ends with ctx and with the Keeper.
func (k *Keeper) join(ctx context.Context) (joined context.Context, leave func(), err error) {
	joined, stop := ending.Either(ctx, k.ctx) // which calls methods of ctx, and these may be the user's
	k.mu.Lock()
	err = k.Err()
	if err == nil {
		k.joined.Add(1)
	}
	k.mu.Unlock()
	if err != nil {
		stop()
		return nil, nil, &OpError{Op: "session", Err: err}
	}
	return joined, func() { stop(); k.joined.Done() }, nil
}

// invoke calls f with a context that ends with ctx and the session.
func invoke(ctx context.Context, s *Session, f func(context.Context, *Session) error) error {
	ctx, stop := ending.Either(ctx, s.final)
	defer stop()
	return f(ctx, s)
}

// Done is closed when no session will follow the present one: by Close, or because the credentials were refused.
func (k *Keeper) Done() <-chan struct{} { return k.ctx.Done() }

// Err returns nil until Done is closed, and then why the Keeper has ended.
func (k *Keeper) Err() error { return context.Cause(k.ctx) }

// Close ends the Keeper: the contexts of all functions end; when Run and the functions of Go have returned, the session is closed.
// A nil error says that the ephemeral znodes of the session are gone; see Session.Close. If ctx ends while functions are still
// running, the session is closed under them, for which the ensemble has a second to answer. Closing again is harmless.
//
// For Run, and for what is built on it such as election.Run, Close waits for Options.CloseTimeout at most, because a function of
// Run may have called Close. It returns when all functions of Go have returned, so none of them may call it.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock() // after which nothing is added to running and joined
	k.cancel(zk.ErrClosed)
	k.mu.Unlock()
	select {
	case <-ending.AllEnded(&k.joined):
	case <-time.After(k.opt.CloseTimeout):
	case <-ctx.Done():
	}
	idle := ending.AllEnded(&k.running)
	select {
	case <-idle:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // closing the session takes a moment more
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), keeperCloseLimit)
		defer cancel()
		k.newest().Close(ctx) // so that functions that still run return
		<-idle
	}
	return k.newest().Close(ctx) // replace may have opened another one meanwhile
}

// replace opens a session whenever the last one is over, until the Keeper ends.
func (k *Keeper) replace() {
	s, opened := k.newest(), time.Now()
	for {
		select {
		case <-s.Done():
		case <-k.Done():
		}
		switch err := s.Err(); {
		case k.Err() != nil:
			return
		case errors.Is(err, zk.ErrAuthFailed):
			k.cancel(err)
			return
		case s.ID() == 0, time.Since(opened) < keeperPause: // it was never open, or not for long
			go k.opt.Logger.Warn("no session, trying again", "pause", keeperPause, "cause", err) // which may block
			if !ending.Pause(k.ctx, keeperPause) {
				return
			}
		}
		old := s
		k.running.Go(func() { old.Close(k.ctx) }) // it is over, but functions of its Go may run on, and may wait for the next session
		s, _ = begin(k.servers, k.opt)            // Keep has found both right
		k.mu.Lock()
		k.mu.opening = s
		k.mu.Unlock()
		err := s.awaitOpen(k.ctx)
		opened = time.Now()
		if err != nil {
			continue
		}
		k.mu.Lock()
		k.mu.session = s
		close(k.mu.changed)
		k.mu.changed = make(chan struct{})
		k.mu.Unlock()
	}
}

// newest returns the newest session.
func (k *Keeper) newest() *Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.session
}
