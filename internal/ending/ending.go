// Package ending is about the end of contexts: the error of a call that ended because its context did, contexts that end with either of
// two or after a limit of time, and waits and readers that end with one.
package ending

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zk"
)

// Of returns why ctx has ended, in the words of its cause. errors.Is finds ctx.Err() and all that it finds in the cause,
// but for values of zk.Code: these are a server's answers to requests, and the cause may be the failure of another
// request, as with an errgroup. A caller that asks for zk.ErrNoNode or zk.ErrConnectionLoss would take that for the answer
// to its own.
//
// errors.As does not look into the cause, whose types say which other operation failed; context.Cause does.
func Of(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return err
	}
	return &ended{err, cause}
}

type ended struct{ err, cause error }

func (e *ended) Error() string { return e.cause.Error() }

func (e *ended) Unwrap() error { return e.err }

func (e *ended) Is(target error) bool {
	_, answer := target.(zk.Code)
	return !answer && errors.Is(e.cause, target)
}

// Ended returns a context that has ended with that cause: that of a value that was never in use.
func Ended(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// CutOff returns err, by which something has ended, together with the reason why there was no connection meanwhile. It
// returns err as it is if that has such a reason already, as the loss of a hold may, or why itself.
func CutOff(err, why error) error {
	if explained(err) || errors.Is(err, why) {
		return err
	}
	return &cutOff{err, why}
}

type cutOff struct{ err, why error }

func (c *cutOff) Error() string { return fmt.Sprintf("%v (no connection: %v)", c.err, c.why) }

func (c *cutOff) Unwrap() error { return c.err }

// explained reports whether err, or the cause of the context's end that it wraps, has a reason from CutOff.
func explained(err error) bool {
	if errors.As(err, new(*cutOff)) {
		return true
	}
	var e *ended
	return errors.As(err, &e) && explained(e.cause)
}
