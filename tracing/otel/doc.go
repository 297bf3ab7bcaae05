// Package locktracing makes OpenTelemetry spans of locks, and of interruptions of sessions, caches and groups.
//
//	tracing := locktracing.New(otel.Tracer("orders"), locktracing.Options{})
//	m, err := lock.NewMutex(s, "/locks/report", lock.Options{Hooks: tracing.Hooks()})
//	go tracing.FollowKeeper(ctx, "main", k)
//
// # Spans
//
//	lock.acquire  from the request to the grant or the refusal; a child of the span of the caller
//	lock.hold     from the grant to the release or the loss; a child of the span of the caller, beside lock.acquire
//
//	session.interruption  no connection: from the loss of one, or of the session, to the next connection
//	cache.stale           a cache may be behind the ensemble
//	group.stale           the members that a Group shows may be behind the ensemble
//	group.absence         a Member is not in its group
//
// All are of the kind INTERNAL. An interruption has its cause as an event. Its span is a child of the span in the context of
// FollowKeeper, FollowCache, FollowGroup or FollowMember. A span of work that begins under the hold's context is a child of
// the caller's span, because the library puts no span into the context.
//
// # Attributes
//
//	lockkeeper.lock.path    the path of the lock, if Options.Paths is set
//	lockkeeper.lock.ahead   of lock.acquire: how many contenders were ahead when the wait began
//	lockkeeper.lock.token   of lock.hold: the fencing token
//	lockkeeper.session.name, lockkeeper.cache.name, lockkeeper.group.name
//	                        the name that FollowKeeper, FollowCache, FollowGroup or FollowMember has been given
//	error.type              busy, timeout, canceled, deadlock, queue-full, reentered, session-expired, session-closed,
//	                        not-authorised, other; or, of lock.hold, a lock.LossReason;
//	                        of an interruption: expired, auth-failed or closed (the session is over), ended (the cache, group or
//	                        member is over)
//
// A failed span has the status Error, with the error's text if Options.Paths is set, and else with its type, except that a lock which
// is busy is no error. An event "lock.waiting" with the number of contenders ahead is added whenever that is looked up.
//
// OpenTelemetry has no convention for locks; error.type is the one of its general conventions.
package locktracing
