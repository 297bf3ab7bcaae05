package ending

import (
	"context"
	"sync"
	"time"
)

// Within returns a context that ends with ctx, and once d has passed. In place of context.WithTimeout it serves calls that are nearly
// always over before anything waits for that: it has no timer before Done is called. For a timer that is set Go wakes a thread, which
// takes longer than some requests. stop frees the timer.
func Within(ctx context.Context, d time.Duration) (limited context.Context, stop func()) {
	w := &within{Context: ctx, until: time.Now().Add(d), stop: func() {}}
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(w.until) {
		w.until = sooner
	}
	return w, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stop()
	}
}

// Untimed returns a context that ends as ctx does, but not by a limit of Within. A caller that keeps ctx.Deadline by other means waits
// for this one.
func Untimed(ctx context.Context) context.Context {
	if w, ok := ctx.(*within); ok {
		return w.Context
	}
	return ctx
}

type within struct {
	context.Context // as it is without the limit
	until           time.Time

	mu    sync.Mutex
	timed context.Context // as it is with the limit; nil before Done has been called
	stop  func()
}

func (w *within) Deadline() (time.Time, bool) { return w.until, true }

func (w *within) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timed == nil {
		w.timed, w.stop = context.WithDeadline(w.Context, w.until)
	}
	return w.timed.Done()
}

// Err goes by the clock until there is a timer.
func (w *within) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timed != nil {
		return w.timed.Err()
	}
	if err := w.Context.Err(); err != nil || time.Now().Before(w.until) {
		return err
	}
	return context.DeadlineExceeded
}
