package server

import "sync/atomic"

// A throttle bounds what the connections of a server have asked for together and not yet been
// answered. When that is too much, the server goes on reading only from connections that have
// nothing outstanding: each of them gets its turn, none gets many, and no client gets an error.
type throttle struct {
	// Fixed by Open; negative requestsMax is no limit.
	requestsMax, bytesMax int64

	requests, bytes atomic.Int64
}

// full reports whether a connection that has something outstanding must not be read from. It is
// asked again whenever one of the connection's own requests is answered, and with the last of
// them it is not throttled any more; so no connection has to be woken when others are answered.
func (t *throttle) full() bool {
	return t.requestsMax >= 0 && t.requests.Load() >= t.requestsMax || t.bytes.Load() > t.bytesMax
}

func (t *throttle) add(requests, bytes int) {
	t.requests.Add(int64(requests))
	t.bytes.Add(int64(bytes))
}
