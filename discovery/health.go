package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/internal/presence"
)

// RegisterWhile keeps an instance registered while it is healthy, until ctx ends, and returns when it is registered no
// more. It calls check at once and then every interval, with a context that ends after the interval, or after a second if
// that is longer. The first error, or panic, ends the registration, and the first nil begins it again; a check that has not returned when its
// context ends counts as an error, and is not called again before it has. check is also called while the registration waits for the
// server, or for another owner of the id. What tolerates single failures is the check's own affair. RegisterOptions.TakeOver is for the
// session that has the id when RegisterWhile is called, also if the instance becomes healthy later; until a server has said which one
// that is, each check waits for it, an interval or a second at most.
//
// The error is nil once ctx has ended and the instance is known to be gone. RegisterWhile also ends when the Keeper does,
// or when the server refuses the instance.
func RegisterWhile(ctx context.Context, k *client.Keeper, base string, i Instance, check func(context.Context) error, interval time.Duration, opt RegisterOptions) error {
	i, path, err := dynamic(base, i) // the same id each time
	switch {
	case err != nil:
	case k == nil:
		err = operr.NoKeeper("register", path, k)
	case check == nil:
		err = operr.NoFunction("register", path, "check")
	case interval <= 0:
		err = &client.OpError{Op: "register", Path: path, Err: errors.New("the interval of the health check must be positive")}
	}
	if err != nil {
		return err
	}
	log := opt.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	var p *presence.Presence    // the one that keeps the instance registered; nil while that is not healthy
	var left *presence.Presence // the last one whose Close has failed; the znodes of those before it are gone
	var over <-chan struct{}    // p.Done; nil if there is no p
	c := checker{check: check, limit: max(interval, time.Second)}
	with := opt.presence()
	for {
		if with.TakeOver && with.Rival == nil {
			with.Rival = ownerOf(ctx, k, path, c.limit)
		}
		sick := c.run(ctx)
		switch {
		case ctx.Err() != nil || with.TakeOver && with.Rival == nil: // not yet
		case sick == nil && p == nil:
			log.Info("discovery: healthy, the registration begins", "path", path)
			if p, err = presence.Begin(k, path, i.Encode(), with); err != nil {
				return err
			}
			over = p.Done()
		case sick != nil && p != nil:
			log.Warn("discovery: not healthy, the registration ends", "path", path, "cause", sick)
			if err := p.Close(ctx); err != nil { // it is closed again in the end
				log.Warn("discovery: the registration ends in the background", "path", path, "cause", err)
				left = p
			}
			if p.WasPresent() {
				with.TakeOver = false // what has the znode by now came later, and is waited for
			}
			p, over = nil, nil
		}
		select {
		case <-ticks.C:
		case <-over:
			p.Close(context.WithoutCancel(ctx))
			return p.Err()
		case <-k.Done():
			return &client.OpError{Op: "register", Path: path, Err: k.Err()}
		case <-ctx.Done():
			for _, begun := range []*presence.Presence{p, left} {
				if begun != nil {
					err = errors.Join(err, begun.Close(context.WithoutCancel(ctx)))
				}
			}
			return err
		}
	}
}

// ownerOf returns the session that has a znode, 0 if none has, and nil if no server has said it in time.
func ownerOf(ctx context.Context, k *client.Keeper, path string, limit time.Duration) *int64 {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var owner *int64
	k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		if err := s.Sync(ctx, path); err != nil {
			return err
		}
		stat, _, err := s.Exists(ctx, path)
		if err == nil {
			owner = &stat.EphemeralOwner
		}
		return err
	})
	return owner
}

// A checker calls a health check on a goroutine that ends with it, one at a time.
type checker struct {
	check  func(context.Context) error
	limit  time.Duration // of one call
	result chan error    // of a call that has not returned in its time; nil if there is none
}

// run returns what a call of the check says of the instance.
func (c *checker) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if c.result != nil {
		select {
		case <-c.result: // which says nothing of the instance as it is now
		case <-ctx.Done():
			return errNotReturned
		}
	}
	result := make(chan error, 1)
	c.result = result
	go func() {
		err := errors.New("the health check has ended its goroutine")
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("the health check has panicked: %v", r)
			}
			result <- err
		}()
		err = c.check(ctx)
	}()
	select {
	case err := <-result:
		c.result = nil
		return err
	case <-ctx.Done():
		return errNotReturned
	}
}

var errNotReturned = errors.New("the health check has not returned in its time")
