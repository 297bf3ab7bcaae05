// Package operr makes the errors of operations that are made of several requests.
package operr

import (
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
)

// Wrap returns err as the error of an operation on path; nil for nil. A request's own name in err goes if its path is the same, or
// if it has none. maybe says that a write may have taken effect nevertheless, which err may say, too.
func Wrap(op, path string, err error, maybe bool) error {
	if err == nil {
		return nil
	}
	out := &client.OpError{Op: op, Path: path, Err: err, Maybe: maybe || client.MaybeApplied(err)}
	var inner *client.OpError
	if errors.As(err, &inner) && (inner.Path == path || inner.Path == "") {
		out.Err = inner.Err
	}
	return out
}
