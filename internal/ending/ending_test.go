package ending_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// endedWith returns the error of a call whose context ended with a cause.
func endedWith(t *testing.T, cause error) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	err := ending.Of(ctx)
	if !errors.Is(err, context.Canceled) || err.Error() != cause.Error() {
		t.Errorf("ended with %v: %v", cause, err)
	}
	return err
}

type uncomparable []string

func (uncomparable) Error() string { return "not to be compared" }

func TestCauseIsFound(t *testing.T) {
	own := errors.New("enough")
	for _, tt := range []struct{ cause, found error }{
		{own, own},
		{fmt.Errorf("done: %w", own), own},
		{&lock.LostError{Path: "/a", Cause: zk.ErrSessionExpired}, lock.ErrLost},
		{&lock.LockError{Op: "lock", Path: "/a", Err: lock.ErrPlaceLost}, lock.ErrPlaceLost},
		{errors.Join(own, &lock.BusyError{}), lock.ErrBusy},
	} {
		if err := endedWith(t, tt.cause); !errors.Is(err, tt.found) {
			t.Errorf("ended with %v: %v is not found", tt.cause, tt.found)
		}
	}
	if errors.Is(endedWith(t, uncomparable{"a"}), own) {
		t.Error("an error that is not the cause was found")
	}
}

// What a server has answered to another request is no answer to this one, and the types of another operation's error do
// not describe this one.
func TestAnswersAreNotFound(t *testing.T) {
	for _, cause := range []error{
		zk.ErrNoNode,
		&client.OpError{Op: "get", Path: "/other", Err: zk.ErrConnectionLoss, Maybe: true},
		fmt.Errorf("worker 3: %w", &lock.LostError{Path: "/other", Cause: zk.ErrSessionExpired}),
	} {
		err := endedWith(t, cause)
		for _, answer := range []error{zk.ErrNoNode, zk.ErrConnectionLoss, zk.ErrSessionExpired} {
			if errors.Is(err, answer) {
				t.Errorf("ended with %v: taken for the answer %v", cause, answer)
			}
		}
		if client.MaybeApplied(err) || errors.As(err, new(*lock.LostError)) || errors.As(err, new(zk.Code)) {
			t.Errorf("ended with %v: taken for this operation's error", cause)
		}
	}
}

func TestWithoutACause(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := ending.Of(ctx); err != context.DeadlineExceeded {
		t.Errorf("without a cause: %v", err)
	}
}

// The reason why there was no connection is said once, also if it is in the cause of the context's end.
func TestCutOffIsSaidOnce(t *testing.T) {
	lost := &lock.LostError{Path: "/a", Cause: ending.CutOff(lock.ErrDeadline, errors.New("refused"))}
	for _, err := range []error{lost, endedWith(t, lost), ending.CutOff(context.Canceled, errors.New("refused"))} {
		twice := ending.CutOff(err, errors.New("refused since"))
		if twice != err || strings.Count(twice.Error(), "no connection: refused") != 1 {
			t.Errorf("%v", twice)
		}
	}
}

// An error that wraps the reason says it once.
func TestCutOffBySomethingThatSaysWhy(t *testing.T) {
	why := errors.New("refused")
	for _, err := range []error{fmt.Errorf("no server for 2s: %w", why), endedWith(t, fmt.Errorf("no server for 2s: %w", why))} {
		if got := ending.CutOff(err, why); got.Error() != "no server for 2s: refused" {
			t.Errorf("CutOff: %v", got)
		}
	}
}
