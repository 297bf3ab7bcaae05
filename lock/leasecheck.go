package lock

import (
	"cmp"
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// The rule of the deadline is package internal/lease. The session keeps a lease by it (client/lease.go). This file asks for that lease
// before a hold begins, and whenever something relies on a hold; the watchdog looks at it meanwhile.

// awaitLease waits until the session's lease is long enough to begin a hold on it, and returns that lease.
func awaitLease(ctx context.Context, s *client.Session, level client.Vouch) (bridge.Lease, error) {
	for {
		l := bridge.Of(s).Lease(int(level))
		if lease.Enough(s.Timeout(), l.Remaining) {
			return l, nil
		}
		select {
		case <-time.After(l.ReadyIn):
		case <-s.Done(): // the next request says so
		case <-ctx.Done():
			return l, ending.Of(ctx)
		}
		prove := func() error { return s.Sync(ctx, "/") }
		if level == client.VouchWrite {
			prove = func() error { return s.AwaitWrites(ctx) }
		}
		if err := prove(); err != nil {
			return l, err
		}
	}
}

// remaining returns how long the grant is good for without another answered heartbeat. An answer that comes after
// the deadline does not bring it back: the process may have stood still, so that no goroutine looked in between.
func (g *grant) remaining() time.Duration {
	l := bridge.Of(g.s).Lease(int(g.lock.opt.Vouch))
	if l.Number != g.leaseNumber {
		return 0
	}
	return l.Remaining
}

// checkDeadline ends the grant if its deadline has passed. Whatever is about to rely on the hold calls it; the watchdog looks for itself. If
// the session is over, which leaves no time either, the cause of the loss is that.
func (g *grant) checkDeadline() {
	if g.remaining() <= 0 {
		g.lose(g.expiry())
	}
}

// expiry returns the cause of a loss by the clock.
func (g *grant) expiry() error { return cmp.Or(g.s.Err(), bridge.Of(g.s).CutOff(ErrDeadline)) }
