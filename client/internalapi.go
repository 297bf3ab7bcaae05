package client

import (
	"cmp"
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/clock"
)

// What package client offers to other packages of this module, and not to its users.
func init() {
	clock.SetIn = func(options any, c *clock.Clock) {
		o := options.(*Options)
		o.clock = cmp.Or(o.clock, c)
	}
	bridge.Of = func(session any) bridge.Session { return lockSession{session.(*Session)} }
	bridge.Join = func(keeper any, ctx context.Context) (context.Context, func(), error) {
		return keeper.(*Keeper).join(ctx)
	}
	bridge.Notify = func(source any, told chan<- struct{}) { source.(bridgedSource).notify(told) }
	bridge.Conn = func(source any) uint64 { return source.(bridgedSource).connection() }
	bridge.ServerPath = func(session any, path string) string { return session.(*Session).serverPath(path) }
	bridge.Zxid = func(session any) int64 { return session.(*Session).lastZxid() }
	bridge.Sent = func(pending any) clock.Instant { return pending.(interface{ sentAt() clock.Instant }).sentAt() }
}

// lockSession is a session as package lock sees it.
type lockSession struct{ *Session }

func (b lockSession) Listen(ctx context.Context, watches any) {
	b.readInline(ctx, func() bool {
		return slices.ContainsFunc(watches.([]*Watch), func(w *Watch) bool { return w != nil && w.over })
	})
}

func (b lockSession) RunWatchdog(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.state.Phase.Final() {
		return false
	}
	b.watchdogs.Add(1)
	b.wg.Go(func() { defer b.watchdogs.Done(); f() })
	return true
}

func (b lockSession) Tell(f func()) { b.tellers.Go(f) }

func (b lockSession) CutOff(err error) error { return b.cutOff(err) }

// A bridgedSource is a *Watch or a *Pending.
type bridgedSource interface {
	notify(told chan<- struct{})
	connection() uint64
}

// connection is bridge.Conn.
func (g *signal) connection() uint64 {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.conn
}

func (p *Pending[T]) sentAt() clock.Instant { return p.sent }
