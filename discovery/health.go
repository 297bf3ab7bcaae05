package discovery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

// RegisterWhile keeps an instance registered while it is healthy, until ctx ends, and returns when it is registered no
// more. It calls check at once and then every interval, with a context that ends after the interval, or after a second if
// that is longer. The first error ends the registration, and the first nil begins it again. What tolerates single
// failures is the check's own affair.
//
// The error is nil once ctx has ended and the instance is known to be gone. RegisterWhile also ends when the Keeper does,
// or when the server refuses the instance.
func RegisterWhile(ctx context.Context, k *client.Keeper, base string, i Instance, check func(context.Context) error, interval time.Duration, opt Options) error {
	i = i.withDefaults(Dynamic) // the same id each time
	path, err := instancePath(base, i)
	if err == nil && interval <= 0 {
		err = errors.New("the interval of the health check must be positive")
	}
	if err != nil {
		return &client.OpError{Op: "register", Path: path, Err: err}
	}
	log := opt.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	var r *Registration // nil while the instance is not healthy
	for {
		sick := runCheck(ctx, check, interval)
		switch {
		case ctx.Err() != nil:
		case sick == nil && r == nil:
			registered, err := Register(ctx, k, base, i, opt)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if err == nil {
				r = registered
				log.Info("discovery: healthy, registered", "path", path)
			}
		case sick != nil && r != nil:
			log.Warn("discovery: not healthy, the registration ends", "path", path, "cause", sick)
			if err := r.Close(ctx); err != nil {
				log.Warn("discovery: the registration ends in the background", "path", path, "cause", err)
			}
			r = nil
		}
		var over <-chan struct{}
		if r != nil {
			over = r.Done()
		}
		select {
		case <-ticks.C:
		case <-over:
			return r.Err()
		case <-k.Done():
			return &client.OpError{Op: "register", Path: path, Err: k.Err()}
		case <-ctx.Done():
			if r == nil {
				return nil
			}
			return r.Close(context.WithoutCancel(ctx))
		}
	}
}

// runCheck calls check with a limit of time.
func runCheck(ctx context.Context, check func(context.Context) error, interval time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(interval, time.Second))
	defer cancel()
	return check(ctx)
}
