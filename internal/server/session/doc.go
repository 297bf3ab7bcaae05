// Package session keeps the sessions of a server, and when each expires.
//
// A Table holds the sessions of a server: each with the timeout it was granted, the connection
// that owns it and the moment at which it expires. It is pure: it has no clock and no
// goroutine. The caller passes the time, as a monotonic duration since a moment of its
// choice, and carries out what follows from the answers.
//
// Time is counted in ticks, as in ZooKeeper: a session that was last heard of at now is expired at
// the first multiple of the tick after now+timeout. So it never dies early, and late by at most
// one tick, and because sessions share these moments, an expiry sweep costs as much as there are
// moments and victims, however many sessions live.
package session
