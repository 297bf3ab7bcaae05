package ending_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fence"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

type unlike []string // not to be compared

func (unlike) Error() string { return "unlike" }

// A cause of the caller's own is found in the error, one that another call of the library was told is not.
func TestOf(t *testing.T) {
	own := errors.New("enough")
	for _, tt := range []struct {
		cause  error
		hidden bool
	}{
		{own, false},
		{fmt.Errorf("done: %w", own), false},
		{unlike{"a"}, false},
		{zk.ErrNoNode, true},
		{lock.ErrPlaceLost, true},
		{election.ErrResigned, true},
		{fmt.Errorf("fence a: %w", fence.ErrFull), true},
		{&client.OpError{Op: "get", Err: own}, true},
		{&lock.LockError{Op: "lock", Err: own}, true},
		{&fence.StaleError{}, true},
		{fmt.Errorf("worker 3: %w", &lock.BusyError{}), true},
		{errors.Join(own, &lock.BusyError{}), true},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(tt.cause)
		err := ending.Of(ctx)
		if !errors.Is(err, context.Canceled) || err.Error() != tt.cause.Error() {
			t.Errorf("ended with %v: %v", tt.cause, err)
		}
		found := errors.Is(err, tt.cause) || errors.Is(err, own) || errors.Is(err, lock.ErrBusy) || errors.As(err, new(unlike))
		if found == tt.hidden {
			t.Errorf("ended with %v: the cause is found %v, want %v", tt.cause, found, !tt.hidden)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := ending.Of(ctx); err != context.DeadlineExceeded {
		t.Errorf("without a cause: %v", err)
	}
}
