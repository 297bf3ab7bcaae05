package locktracing

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Options configure Tracing. The zero value of every field means its default.
type Options struct {
	// Paths puts the path of the lock into each span, and the text of errors, which names paths, hosts and what holds a lock. Default:
	// spans do not say which lock it was, and an interruption's span not what the cause was.
	Paths bool
}

// Tracing makes spans. It is safe for use by many goroutines and any number of locks.
type Tracing struct {
	tracer trace.Tracer
	opt    Options
}

// New returns Tracing whose spans the tracer begins; if it is nil, one of OpenTelemetry's global provider does.
func New(tracer trace.Tracer, opt Options) *Tracing {
	if tracer == nil {
		tracer = otel.Tracer("github.com/lockkeeper/lockkeeper/tracing/otel")
	}
	return &Tracing{tracer, opt}
}

// requestKey is the key of a *request in a context. An All has a request for each path in one context.
type requestKey struct {
	t    *Tracing
	path string
}

// A request has the spans of one request for a lock.
type request struct {
	mu      sync.Mutex
	acquire trace.Span
	holds   []trace.Span // that have not ended; several if permits were acquired together
	waits   bool
}

// Hooks returns hooks for lock.Options.
func (t *Tracing) Hooks() lock.Hooks {
	return lock.Hooks{Asked: t.asked, Waiting: t.waiting, Granted: t.granted, Released: t.released, Lost: t.lost, Refused: t.refused}
}

// begin begins a span as a child of the caller's.
func (t *Tracing) begin(ctx context.Context, name, path string, attrs ...attribute.KeyValue) trace.Span {
	if t.opt.Paths {
		attrs = append(attrs, attribute.String("lockkeeper.lock.path", path))
	}
	_, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...))
	return span
}

func (t *Tracing) asked(ctx context.Context, path string) context.Context {
	return context.WithValue(ctx, requestKey{t, path}, &request{acquire: t.begin(ctx, "lock.acquire", path)})
}

// of calls f with the request that a hook is told of. There is none if a lock was refused before it was asked for.
func (t *Tracing) of(ctx context.Context, path string, f func(*request)) {
	if r, ok := ctx.Value(requestKey{t, path}).(*request); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		f(r)
	}
}

func (t *Tracing) waiting(ctx context.Context, path string, at lock.Place) {
	t.of(ctx, path, func(r *request) {
		ahead := attribute.Int("lockkeeper.lock.ahead", at.Ahead)
		if !r.waits {
			r.waits = true
			r.acquire.SetAttributes(ahead)
		}
		r.acquire.AddEvent("lock.waiting", trace.WithAttributes(ahead))
	})
}

func (t *Tracing) granted(ctx context.Context, path string, h *lock.Hold) {
	t.of(ctx, path, func(r *request) {
		r.acquire.End()
		r.holds = append(r.holds, t.begin(ctx, "lock.hold", path, attribute.Int64("lockkeeper.lock.token", h.Token())))
	})
}

// next takes a span of a hold that ends. Permits that were acquired together are not told apart.
func (r *request) next() trace.Span {
	if len(r.holds) == 0 {
		return trace.SpanFromContext(context.Background()) // one that records nothing
	}
	span := r.holds[0]
	r.holds = r.holds[1:]
	return span
}

func (t *Tracing) released(ctx context.Context, path string) {
	t.of(ctx, path, func(r *request) { r.next().End() })
}

func (t *Tracing) lost(ctx context.Context, path string, err *lock.LostError) {
	t.of(ctx, path, func(r *request) {
		span := r.next()
		t.fail(span, string(err.Reason()), err)
		span.End()
	})
}

func (t *Tracing) refused(ctx context.Context, path string, err error) {
	t.of(ctx, path, func(r *request) {
		kind := reason(err)
		if kind == "busy" {
			r.acquire.SetAttributes(attribute.String("error.type", kind))
		} else {
			t.fail(r.acquire, kind, err)
		}
		r.acquire.End()
	})
}

// fail ends a span's work with an error, if there is one. Its text has paths and names of hosts, so it is for those that want paths.
func (t *Tracing) fail(span trace.Span, kind string, err error) {
	why := kind
	if t.opt.Paths && err != nil {
		why = err.Error()
	}
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, why)
}

// reason returns one of a few words for an error.
func reason(err error) string {
	for _, r := range []struct {
		is   error
		word string
	}{
		{lock.ErrDeadlock, "deadlock"}, {lock.ErrQueueFull, "queue-full"},
		{context.DeadlineExceeded, "timeout"}, {context.Canceled, "canceled"}, // which also say that the lock is busy
		{lock.ErrBusy, "busy"}, {lock.ErrReentered, "reentered"},
		{zk.ErrSessionExpired, "session-expired"}, {zk.ErrClosed, "session-closed"}, {zk.ErrNoAuth, "not-authorised"},
	} {
		if errors.Is(err, r.is) {
			return r.word
		}
	}
	return "other"
}
