// Package locktracing makes OpenTelemetry spans of locks and of what runs under a session.
//
//	tracing := locktracing.New(otel.Tracer("orders"), locktracing.Options{})
//	m, err := lock.NewMutex(s, "/locks/report", lock.Options{Hooks: tracing.Hooks()})
//
// # Spans
//
//	lock.acquire  from the request to the grant or the refusal; a child of the span of the caller
//	lock.hold     from the grant to the release or the loss; a child of the span of the caller, beside lock.acquire
//
// Both are of the kind INTERNAL. A span of work that begins under the hold's context is a child of the caller's span too:
// the library puts no span into the context.
//
// # Attributes
//
//	lockkeeper.lock.path    the path of the lock, if Options.Paths is set
//	lockkeeper.lock.ahead   of lock.acquire: how many contenders were ahead when the wait began
//	lockkeeper.lock.token   of lock.hold: the fencing token
//	error.type              busy, timeout, canceled, deadlock, queue-full, other; or, of lock.hold, a lock.LossReason
//
// A failed span has the status Error, except that a lock which is busy is no error. An event "lock.waiting" with the number
// of contenders ahead is added whenever that is looked up.
//
// OpenTelemetry has no convention for locks; error.type is the one of its general conventions.
package locktracing
