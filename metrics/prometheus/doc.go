// Package lockmetrics makes Prometheus metrics of what locks, sessions, caches and groups do.
//
//	m := lockmetrics.New(lockmetrics.Options{})
//	prometheus.MustRegister(m)
//	k, err := client.Keep(ctx, servers, client.Options{Trace: m.Trace()})
//	mutex, err := lock.NewMutex(s, "/locks/report", lock.Options{Hooks: m.Hooks()})
//	m.AddKeeper("main", k)
//
// # Metrics
//
//	lockkeeper_lock_wait_seconds         histogram of the time from the request to the grant
//	lockkeeper_lock_hold_seconds         histogram of the time from the grant to the release or the loss
//	lockkeeper_lock_held                 locks that are held
//	lockkeeper_lock_waiting              requests that wait behind another contender
//	lockkeeper_lock_oldest_hold_seconds  age of the oldest hold, 0 without one: alert on it
//	lockkeeper_lock_contended_total      requests that had to wait
//	lockkeeper_lock_refused_total        requests that failed, by reason: busy, canceled, timeout, deadlock, queue-full,
//	                                     reentered, session-expired, session-closed, not-authorised, other
//	lockkeeper_lock_lost_total           locks that were lost, by reason; see lock.LossReason
//	lockkeeper_session_phases_total      changes of sessions, by phase: connected, disconnected, expired, closed, …
//	lockkeeper_session_failures_total    attempts to connect that failed
//	lockkeeper_session_connected         1 while the Keeper has a session that is connected, by session
//	lockkeeper_session_timeout_seconds   the granted session timeout, by session
//	lockkeeper_cache_znodes, _bytes      size of a cache, by cache
//	lockkeeper_cache_stale               1 while a cache may be behind, by cache
//	lockkeeper_cache_rereads_total       how often a cache was read again after a gap, by cache
//	lockkeeper_group_members             members of a group, by group
//	lockkeeper_group_stale               1 while the members may be behind, by group
//
// # Names of locks
//
// The paths of locks are no label, because names with ids in them make a time series each. Options.LockName says which
// label a path gets, and it should collapse what varies. Without it, all series of locks are there from the beginning; with it, a label's
// counters begin with its first event, so an alert on an increase does not see that one.
package lockmetrics
