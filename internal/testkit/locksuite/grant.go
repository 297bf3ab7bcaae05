package locksuite

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
)

// A grant is the outcome of a call that asks for something beside the test: what was asked for, or an error.
type grant[T any] struct {
	w    *World
	done chan struct{}
	got  T // a pointer or a slice
	err  error
	at   time.Time
}

// A Grant is that of a call that asks for a lock.
type Grant = grant[*lock.Hold]

// ask calls f beside the test.
func ask[T any](w *World, f func(context.Context) (T, error)) *grant[T] {
	return askUnder(w.Context(), w, f)
}

// askUnder is ask with a context of the caller's choice.
func askUnder[T any](ctx context.Context, w *World, f func(context.Context) (T, error)) *grant[T] {
	g := &grant[T]{w: w, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		g.got, g.err = f(ctx)
		g.at = time.Now()
	}()
	return g
}

// must calls f and returns what was asked for, or ends the test.
func must[T any](w *World, f func(context.Context) (T, error)) T {
	w.t.Helper()
	return ask(w, f).Granted()
}

// Granted waits for what was asked for, or ends the test.
func (g *grant[T]) Granted() T {
	g.w.t.Helper()
	got, err := g.Outcome()
	if err != nil {
		g.w.t.Fatalf("not granted: %v", err)
	}
	return got
}

// Outcome waits for the outcome, and checks that it is one: what was asked for or an error, not both, not neither.
func (g *grant[T]) Outcome() (T, error) {
	g.w.t.Helper()
	select {
	case <-g.done:
	case <-g.w.Context().Done():
		g.w.t.Fatal("no outcome: neither granted nor refused")
	}
	if reflect.ValueOf(g.got).IsNil() == (g.err == nil) {
		g.w.t.Fatalf("F26: %v and error %v: exactly one of them must be nil", g.got, g.err)
	}
	return g.got, g.err
}

// Pending reports whether there is no outcome yet.
func (g *grant[T]) Pending() bool {
	select {
	case <-g.done:
		return false
	default:
		return true
	}
}

// StillPending checks that there is no outcome for as long as d.
func (g *grant[T]) StillPending(d time.Duration) {
	g.w.t.Helper()
	select {
	case <-g.done:
		g.w.t.Fatalf("an outcome came too early: %v, error %v", g.got, g.err)
	case <-time.After(d):
	}
}

// stillPending ends the test if one of the waits is over, now or a moment later.
func (w *World) stillPending(what string, waits ...*Grant) {
	w.t.Helper()
	time.Sleep(w.moment())
	for i, g := range waits {
		if !g.Pending() {
			w.t.Fatalf("%s: wait %d is over (error %v)", what, i, g.err)
		}
	}
}

// MustRelease gives back what was granted, or ends the test.
func (w *World) MustRelease(h interface{ Release(context.Context) error }) {
	w.t.Helper()
	if err := h.Release(w.Context()); err != nil {
		w.t.Fatalf("release: %v", err)
	}
}

// A loan is what ends once, with a cause: a hold, holds, a term.
type loan interface {
	Done() <-chan struct{}
	Cause() error
}

// Ended waits until a loan is over, soon, and checks its cause.
func (w *World) Ended(l loan, cause error) {
	w.t.Helper()
	select {
	case <-l.Done():
	case <-time.After(patience):
		w.t.Fatalf("it does not end, want %v", cause)
	}
	if !errors.Is(l.Cause(), cause) {
		w.t.Errorf("it ended with %v, want %v", l.Cause(), cause)
	}
}
