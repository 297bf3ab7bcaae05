package ending

import "context"

// Either returns a context that ends with ctx and with other, with the cause of the one that ended first. It has the values of ctx. stop
// ends it, and frees what it takes.
func Either(ctx, other context.Context) (either context.Context, stop func()) {
	either, cancel := context.WithCancelCause(ctx)
	free := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return either, func() { free(); cancel(nil) }
}
