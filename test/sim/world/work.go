package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// works are what processes do. To add one is to write a deed for it and to put it here.
var works = []deed{
	{"mutex", 10, planLock, runMutex},
	{"try", 3, planLock, runTry},
}

// lockDirs are the directories that must be empty in the end.
var lockDirs []string

func init() {
	for _, kind := range []string{"mutex"} {
		for key := range keys {
			lockDirs = append(lockDirs, dirOf(kind, key))
		}
	}
}

// keys is how many locks there are of a kind.
const keys = 2

func dirOf(kind string, key int) string { return fmt.Sprintf("/sim/%s%d", kind, key) }

func planLock(d *dice, s *Step) {
	s.Key = d.IntN(keys)
	s.Wait = d.upTo(20*time.Millisecond, 2*time.Second, 15*time.Second)
	s.For = d.upTo(time.Millisecond, time.Second, 8*time.Second)
	s.Release = d.upTo(20*time.Millisecond, 2*time.Second)
}

// options are those of a step's lock.
func (w *World) options(s Step) lock.Options {
	return lock.Options{PID: 1, Label: "sim", Vouch: w.plan.Vouch, Requeue: s.ID%2 == 0}
}

func runMutex(w *World, s Step) { w.takeMutex(s, (*lock.Mutex).Lock) }
func runTry(w *World, s Step)   { w.takeMutex(s, (*lock.Mutex).TryLock) }

func (w *World) takeMutex(s Step, take func(*lock.Mutex, context.Context) (*lock.Hold, error)) {
	path := dirOf("mutex", s.Key)
	w.take(s, path, false, func(ctx context.Context, cs *client.Session) (*lock.Hold, error) {
		m, err := lock.NewMutex(cs, path, w.options(s))
		if err != nil {
			return nil, err
		}
		return take(m, ctx)
	})
}

// take asks for a lock, works under it and gives it back.
func (w *World) take(s Step, path string, shared bool, ask func(context.Context, *client.Session) (*lock.Hold, error)) {
	p := w.procs[s.Who]
	var h *lock.Hold
	var cs *client.Session
	var err error
	p.bounded(s.Do, s.Wait, func(ctx context.Context) {
		if cs, err = p.open(ctx); err == nil {
			h, err = ask(ctx, cs)
		}
	})
	if !w.outcome(s, cs, h != nil, err) {
		return
	}
	w.hold(s, h, &stay{p: p, path: path, token: h.Token(), session: cs.ID(), shared: shared})
}

// outcome checks that the outcome of asking for a lock is one that may be, and reports whether it is a hold.
func (w *World) outcome(s Step, cs *client.Session, held bool, err error) bool {
	w.note(s.Who, "#%d %s: %v", s.ID, s.Do, err)
	var refused *client.OpenError
	switch {
	case held == (err != nil):
		w.violated("F26: %s: hold %v and error %v", s.Do, held, err)
	case held:
		w.count(func(r *Report) { r.Grants++ })
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, lock.ErrBusy), errors.Is(err, lock.ErrPlaceLost),
		errors.Is(err, zk.ErrSessionExpired), errors.As(err, &refused):
		w.count(func(r *Report) { r.Refusals++ })
	default:
		w.violated("%s refused with %v", s.Do, err)
	}
	return held
}

// hold works under a hold and gives it back.
func (w *World) hold(s Step, h *lock.Hold, st *stay) {
	if h.Cause() == nil {
		w.witness.enter(st)
	}
	select {
	case <-time.After(s.For):
	case <-h.Done():
	}
	w.witness.leave(st)
	w.release(s, h)
}

// release gives a hold back.
func (w *World) release(s Step, h *lock.Hold) {
	var err error
	w.procs[s.Who].bounded("release", s.Release, func(ctx context.Context) { err = h.Release(ctx) })
	w.note(s.Who, "#%d released: %v", s.ID, err)
	switch {
	case err == nil, errors.Is(err, lock.ErrReleasePending):
	case errors.Is(err, lock.ErrLost):
		w.count(func(r *Report) { r.Losses++ })
	default:
		w.violated("release: %v", err)
	}
}
