package fence

import (
	"context"
	"errors"
	"net/http"
)

// A Register lets work begin under a claim, and keeps the promises of this package for it; Memory.Do
// says more. It calls f at most once, before it returns.
type Register interface {
	Do(ctx context.Context, c Claim, f func(ctx context.Context) error) error
}

// HandlerOptions configure a handler. Register or NextChecks is needed: without them, stale tokens would be let in.
type HandlerOptions struct {
	// Register compares tokens and is held while the request is served.
	Register Register

	// NextChecks leaves the comparison to the next handler, which has the claim from FromContext and compares it
	// in a transaction of its own with Table.Check: that is how to fence a database. There is no Register
	// then, and the handler itself refuses no stale token.
	NextChecks bool

	// Resource says which resource a request is for, where the request's method and path tell; then
	// ResourceHeader is not looked at, and no caller can get around the fence by naming another
	// resource. An empty result is answered with 400. Default: what ResourceHeader says.
	Resource func(*http.Request) string

	// Missing serves requests without a token. Default: 428 Precondition Required. Give it the handler
	// for requests that need no lock.
	Missing http.Handler
}

// NewHandler returns a handler that serves with next the requests of holders that have not been overtaken.
// It answers others itself:
//
//	400 Bad Request            there is a token, but the claim is not valid, or it is there twice
//	412 Precondition Failed    the token is stale: the lock has passed on. Do not try again with it
//	428 Precondition Required  there is no token; see HandlerOptions.Missing
//	503 Service Unavailable    the register is full or failed, or the client left before its turn
//
// With HandlerOptions.NextChecks, the 412 and the 503 are next's affair; WriteError gives them. The error says what of the
// arguments is missing or in contradiction.
//
// The request's context ends, with a *StaleError as its cause, when its holder is overtaken while next
// runs; the holder that has overtaken it waits until next has returned.
//
// The end of that context does not end a Read of the request's body or a Write of the answer: a holder that
// is paused in the middle of its body keeps next, and the next holder, for as long as it is paused. Give the
// http.Server a ReadTimeout and a WriteTimeout, of about the session timeout.
func NewHandler(next http.Handler, opt HandlerOptions) (http.Handler, error) {
	switch {
	case next == nil:
		return nil, errors.New("fence: there is no handler to be fenced")
	case opt.Register == nil && !opt.NextChecks:
		return nil, errors.New("fence: option Register: there is none, so stale tokens would be let in (set it, or NextChecks if the next handler checks)")
	case opt.Register != nil && opt.NextChecks:
		return nil, errors.New("fence: options Register and NextChecks: only one of them checks tokens")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := claimOf(r, opt.Resource)
		if errors.Is(err, ErrMissing) && opt.Missing != nil {
			opt.Missing.ServeHTTP(w, r)
			return
		}
		if err != nil {
			WriteError(w, err)
			return
		}
		served := false
		serve := func(ctx context.Context) error {
			served = true
			next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, claimKey{}, c)))
			return nil
		}
		if opt.NextChecks {
			serve(r.Context())
			return
		}
		if err := opt.Register.Do(r.Context(), c, serve); err != nil && !served {
			WriteError(w, err)
		}
	}), nil
}

func claimOf(r *http.Request, resource func(*http.Request) string) (Claim, error) {
	if resource == nil {
		return ParseHeader(r.Header)
	}
	return parseClaim(r.Header, func() (string, error) { return resource(r), nil })
}

// WriteError answers a request whose claim was not accepted, with the status that NewHandler documents
// for err. Errors that are not of this package are not shown to the client.
func WriteError(w http.ResponseWriter, err error) {
	status, text := http.StatusServiceUnavailable, "fencing register is not available"
	switch {
	case errors.Is(err, ErrStale):
		status, text = http.StatusPreconditionFailed, err.Error()
	case errors.Is(err, ErrMissing):
		status, text = http.StatusPreconditionRequired, err.Error()
	case errors.Is(err, ErrInvalid):
		status, text = http.StatusBadRequest, err.Error()
	case errors.Is(err, ErrFull):
		text = err.Error()
	}
	http.Error(w, text, status)
}
