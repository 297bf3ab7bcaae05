package ending_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/ending"
)

// Within ends as context.WithTimeout does, by the limit, by its parent's deadline and by its parent's end, whether it is waited for or
// only asked.
func TestWithin(t *testing.T) {
	own := errors.New("enough")
	for _, tt := range []struct {
		name   string
		parent func() context.Context
		after  time.Duration
		cause  error
	}{
		{"the limit", context.Background, 2 * time.Second, context.DeadlineExceeded},
		{"a parent's earlier deadline", func() context.Context { return deadline(time.Second) }, time.Second, context.DeadlineExceeded},
		{"a parent's later deadline", func() context.Context { return deadline(3 * time.Second) }, 2 * time.Second, context.DeadlineExceeded},
		{"a parent's deadline with a cause", func() context.Context { return deadlineCause(time.Second, own) }, time.Second, own},
		{"a parent's end", func() context.Context { return cancelled(time.Second, own) }, time.Second, own},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, stop := ending.Within(tt.parent(), 2*time.Second)
				defer stop()
				waited, stopWaited := ending.Within(tt.parent(), 2*time.Second)
				defer stopWaited()
				began := time.Now()
				time.Sleep(tt.after - 1)
				if asked.Err() != nil || waited.Err() != nil {
					t.Fatalf("over after %v: %v, %v", time.Since(began), asked.Err(), waited.Err())
				}
				<-waited.Done()
				synctest.Wait() // for the timer of the other's parent
				if took := time.Since(began); took != tt.after {
					t.Errorf("done after %v, want %v", took, tt.after)
				}
				for _, ctx := range []context.Context{asked, waited} {
					if cause := context.Cause(ctx); cause != tt.cause || ctx.Err() == nil {
						t.Errorf("ended by %v (%v), want %v", cause, ctx.Err(), tt.cause)
					}
				}
				select {
				case <-asked.Done(): // for the first time, now that it has ended
				default:
					t.Error("not done, but over")
				}
				time.Sleep(5 * time.Second) // until all parents have ended
			})
		})
	}
}

func deadline(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func deadlineCause(d time.Duration, cause error) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, cause)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func cancelled(d time.Duration, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(d, func() { cancel(cause) })
	return ctx
}

// Within sets its timer when it is waited for, and not before: otherwise it would be of no use.
func TestWithinSetsItsTimerLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := &asked{Context: t.Context()}
		ctx, stop := ending.Within(parent, time.Second)
		if ending.Untimed(ctx) != parent || ending.Untimed(parent) != parent {
			t.Error("Untimed is not the context without the limit")
		}
		if d, ok := ctx.Deadline(); !ok || d != time.Now().Add(time.Second) || ctx.Err() != nil || ctx.Value(0) != nil {
			t.Errorf("deadline %v, error %v, value %v", d, ctx.Err(), ctx.Value(0))
		}
		if before := parent.deadlines; before != 1 {
			t.Errorf("its parent was asked for its deadline %d times before there was a wait, want once", before)
		}
		ctx.Done()
		if parent.deadlines != 2 {
			t.Error("no timer was set for a wait")
		}
		stop()
		<-ctx.Done()
		if context.Cause(ctx) != context.Canceled {
			t.Errorf("stopped: %v", context.Cause(ctx))
		}
	})
}

// asked counts how often it was asked for its deadline, as it is whenever a timer is set for a context below it.
type asked struct {
	context.Context
	deadlines int
}

func (a *asked) Deadline() (time.Time, bool) {
	a.deadlines++
	return a.Context.Deadline()
}
