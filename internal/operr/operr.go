// Package operr makes the errors of operations that are made of several requests, and of those that lack what they need.
package operr

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
)

// Wrap returns err as the error of an operation on path; nil for nil. If err is a request's, the name of that goes if its path is the
// same, or if it has none. maybe says that a write may have taken effect nevertheless, which err may say, too.
func Wrap(op, path string, err error, maybe bool) error {
	if err == nil {
		return nil
	}
	out := &client.OpError{Op: op, Path: path, Err: err, Maybe: maybe || client.MaybeApplied(err)}
	inner, ok := err.(*client.OpError) // and not one within: what is around it would be lost
	if ok && (inner.Path == path || inner.Path == "") {
		out.Err = inner.Err
	}
	return out
}

var errNoKeeper = errors.New("there is no keeper (make one with client.Keep)")

// NoKeeper returns the error of an operation on path that is given no Keeper; nil if it is given one.
func NoKeeper(op, path string, k *client.Keeper) error {
	if k == nil {
		return &client.OpError{Op: op, Path: path, Err: errNoKeeper}
	}
	return nil
}

// NoFunction returns the error of an operation on path whose caller has given nil for the function called name.
func NoFunction(op, path, name string) error {
	return &client.OpError{Op: op, Path: path, Err: fmt.Errorf("there is no function %s", name)}
}
