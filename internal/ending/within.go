package ending

import (
	"context"
	"sync"
	"time"
)

// Within is context.WithTimeout for calls that are nearly always over before anything waits: there is no timer until Done is called,
// because Go wakes a thread for each timer, which takes longer than some requests. Call stop when the call is over, and nothing of the
// context afterwards.
func Within(ctx context.Context, d time.Duration) (limited context.Context, stop func()) {
	limit := time.Now().Add(d)
	w := &within{Context: ctx, limit: limit, deadline: limit, stop: func() {}}
	if own, ok := ctx.Deadline(); ok && own.Before(limit) {
		w.deadline = own
	}
	return w, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stop()
	}
}

// Untimed returns ctx without the limit of Within, for a caller that keeps ctx.Deadline by other means.
func Untimed(ctx context.Context) context.Context {
	if w, ok := ctx.(*within); ok {
		return w.Context
	}
	return ctx
}

type within struct {
	context.Context // as it is without the limit
	limit           time.Time
	deadline        time.Time // the limit, or that of the context if it is sooner: the context keeps it, and may have a cause for it

	mu    sync.Mutex
	timed context.Context // as it is with the limit; nil before Done has been called
	stop  func()
}

func (w *within) Deadline() (time.Time, bool) { return w.deadline, true }

func (w *within) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timed == nil {
		w.timed, w.stop = context.WithDeadline(w.Context, w.limit)
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
	if err := w.Context.Err(); err != nil || time.Until(w.limit) > 0 {
		return err
	}
	return context.DeadlineExceeded
}
