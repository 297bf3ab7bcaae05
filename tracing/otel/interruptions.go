package locktracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/zk"
)

// FollowKeeper makes a span session.interruption of each time in which the Keeper has no connection. It returns when ctx
// or the Keeper ends, so it is called on a goroutine of its own. An interruption that is over before FollowKeeper looks
// has no span.
func (t *Tracing) FollowKeeper(ctx context.Context, name string, k *client.Keeper) {
	gap := interruption{t: t, ctx: ctx, span: "session.interruption", name: attribute.String("lockkeeper.session.name", name)}
	defer gap.over()
	s, err := k.Session(ctx)
	for err == nil {
		st, passed := s.State()
		switch {
		case st.Phase == client.Connected:
			gap.over()
		case st.Phase == client.Closed && k.Err() != nil:
			return
		default:
			gap.begin(st.Since, st.Cause)
		}
		if st.Phase.Final() {
			gap.fail(ended(st.Phase), st.Cause)
			s, err = k.Session(ctx)
			continue
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return
		}
	}
}

// ended returns the word for the end of a session that was not closed by its Keeper.
func ended(p client.Phase) string {
	switch p {
	case client.AuthFailed:
		return "auth-failed"
	case client.Closed:
		return "closed"
	}
	return "expired"
}

// FollowCache makes a span cache.stale of each time in which the cache may be behind the ensemble. It returns when ctx or
// the cache ends, so it is called on a goroutine of its own.
func (t *Tracing) FollowCache(ctx context.Context, name string, c *cache.Cache) {
	t.follow(ctx, "cache.stale", attribute.String("lockkeeper.cache.name", name), c, func() (<-chan struct{}, error) {
		st, passed := c.State()
		return passed, st.Stale
	})
}

// FollowGroup makes a span group.stale of each time in which the members of the group may be behind the ensemble. It
// returns when ctx or the Group ends, so it is called on a goroutine of its own.
func (t *Tracing) FollowGroup(ctx context.Context, name string, g *group.Group) {
	t.follow(ctx, "group.stale", attribute.String("lockkeeper.group.name", name), g, func() (<-chan struct{}, error) {
		passed := g.Changed()
		return passed, g.Stale()
	})
}

// FollowMember makes a span group.absence of each time in which the member is not in its group. It returns when ctx or the
// Member ends, so it is called on a goroutine of its own.
func (t *Tracing) FollowMember(ctx context.Context, name string, m *group.Member) {
	t.follow(ctx, "group.absence", attribute.String("lockkeeper.group.name", name), m, func() (<-chan struct{}, error) {
		st, passed := m.State()
		return passed, st.Err
	})
}

// A source is a cache, a Group or a Member.
type source interface {
	Done() <-chan struct{}
	Err() error
}

// follow makes a span of each time in which state returns an error, until ctx or the source ends.
func (t *Tracing) follow(ctx context.Context, span string, name attribute.KeyValue, of source,
	state func() (<-chan struct{}, error)) {
	gap := interruption{t: t, ctx: ctx, span: span, name: name}
	defer gap.over()
	for {
		passed, why := state()
		since := time.Now()
		if errors.Is(why, zk.ErrClosed) { // the source, and Done is closed next; or a session, and another one follows
			select {
			case <-passed:
			case <-of.Done():
			case <-ctx.Done():
			}
		}
		switch {
		case errors.Is(of.Err(), zk.ErrClosed):
			return
		case of.Err() != nil:
			gap.begin(time.Now(), of.Err())
			gap.fail("ended", of.Err())
			return
		case why == nil:
			gap.over()
		default:
			gap.begin(since, why)
		}
		select {
		case <-passed:
		case <-of.Done():
		case <-ctx.Done():
			return
		}
	}
}

// An interruption makes one span after the other. One goroutine uses it.
type interruption struct {
	t    *Tracing
	ctx  context.Context // of the function that follows; the parent of all spans
	span string
	name attribute.KeyValue

	open trace.Span // nil while there is no interruption
}

// begin begins a span, unless there is one already.
func (i *interruption) begin(since time.Time, cause error) {
	if i.open != nil {
		return
	}
	_, i.open = i.t.tracer.Start(i.ctx, i.span, trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(since), trace.WithAttributes(i.name))
	if cause != nil && i.t.opt.Paths {
		i.open.RecordError(cause)
	}
}

// fail notes that the interruption has ended what it interrupted.
func (i *interruption) fail(kind string, cause error) { i.t.fail(i.open, kind, cause) }

// over ends the span, if there is one.
func (i *interruption) over() {
	if i.open != nil {
		i.open.End()
		i.open = nil
	}
}
