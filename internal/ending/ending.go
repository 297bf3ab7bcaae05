// Package ending says why a context has ended, as the error of a call that it put an end to.
package ending

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Of returns why ctx has ended. The text is that of its cause; errors.Is finds ctx.Err() and the cause, unless the cause
// is, or wraps, an error of this library. Such a one is about another call, as with an errgroup: what a server or another
// lock has said there, nobody has said here.
func Of(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return err
	}
	return &ended{err, cause}
}

// CutOff returns err, by which something has ended, and why there was no connection meanwhile. An err that says so itself,
// as the loss of a hold may, stays as it is.
func CutOff(err, why error) error {
	if strings.Contains(err.Error(), why.Error()) {
		return err
	}
	return fmt.Errorf("%w (no connection: %v)", err, why)
}

type ended struct{ err, cause error }

func (e *ended) Error() string { return e.cause.Error() }

func (e *ended) Unwrap() []error {
	if ofLibrary(e.cause) {
		return []error{e.err}
	}
	return []error{e.err, e.cause}
}

// library is the packages whose errors callers ask for.
var library = []string{"zk", "client", "lock", "election", "fence"}

var module = strings.TrimSuffix(reflect.TypeFor[ended]().PkgPath(), "internal/ending")

// ofLibrary reports whether there is an error of the library's types in the tree of err.
func ofLibrary(err error) bool {
	if err == nil {
		return false
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ours := strings.CutPrefix(t.PkgPath(), module); ours && slices.Contains(library, name) {
		return true
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return ofLibrary(u.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(u.Unwrap(), ofLibrary)
	}
	return false
}
