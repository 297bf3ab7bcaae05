package client

import (
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// greetingLocked returns what goes ahead of everything else on a new connection: the credentials, then the watches that
// were armed on the last one.
//
// A server takes a session that has seen no newer transaction than it has itself, and learns that from the handshake. It does
// not learn there what the session has seen in an event only. An event is not counted in lastZxid, because several events
// belong to one transaction and the connection may break between them. So a transaction comes first after an event that no answer
// has followed: without it, reads on a server that lags would be older than what the event told. A sync is not enough if that server
// is the leader, which answers one before it has applied what it has committed.
func (c *conn) greetingLocked() []*call {
	var calls []*call
	for _, a := range c.s.mu.auth {
		calls = append(calls, greet(a))
	}
	if c.s.mu.ahead {
		calls = append(calls, ownCall(wire.OpMulti, "await writes", "/", noChange))
	}
	return append(calls, c.s.watches.rearm(c.number, c.s.mu.lastZxid, c.s.opt.WatchBytesMax)...)
}

// greet returns the request that shows a credential.
func greet(a Auth) *call {
	return ownCall(wire.OpAuth, "auth", a.Scheme, &wire.AuthRequest{Scheme: a.Scheme, Auth: a.Credential})
}

// rearm returns the requests that register again, on a new connection, what was armed on the last
// one. Each carries about bytesMax of paths: one frame with everything could be larger than the server
// accepts, which would end the connection, again and again (samuel/go-zookeeper 167).
func (t *watches) rearm(conn uint64, lastZxid int64, bytesMax int) []*call {
	p := rearmer{zxid: lastZxid, bytesMax: bytesMax}
	for key, spot := range t.spots {
		if len(spot.watches) == 0 {
			continue
		}
		spot.armed = true
		present, absent := false, false
		for _, w := range spot.watches {
			w.set = conn
			present, absent = present || !w.absent, absent || w.absent
		}
		if key.kind == zk.WatchChildren {
			p.add(&p.req.Child, key.path)
			continue
		}
		if present {
			p.add(&p.req.Data, key.path)
		}
		if absent {
			p.add(&p.req.Exist, key.path)
		}
	}
	for key, streams := range t.streams {
		if key.kind == zk.WatchPersistentRecursive {
			p.add(&p.req.Recursive, key.path)
		} else {
			p.add(&p.req.Persistent, key.path)
		}
		for _, st := range streams {
			st.gapLocked() // persistent watches are not told what they missed
		}
	}
	p.cut()
	return p.calls
}

// rearmBytes is how much longer than the request that set a watch a request can be that registers this watch again and no
// other.
const rearmBytes = 27

// A rearmer packs paths into requests.
type rearmer struct {
	zxid     int64
	bytesMax int
	req      wire.SetWatchesRequest
	bytes    int // of paths in req
	calls    []*call
}

func (p *rearmer) add(list *[]string, path string) {
	if p.bytes > 0 && p.bytes+len(path) > p.bytesMax {
		p.cut()
	}
	*list = append(*list, path)
	p.bytes += len(path) + 4
}

// cut closes the request at hand.
func (p *rearmer) cut() {
	if p.bytes == 0 {
		return
	}
	p.req.RelativeZxid = p.zxid
	p.calls = append(p.calls, ownCall(p.req.Op(), "register watches again", "", &p.req))
	p.req, p.bytes = wire.SetWatchesRequest{}, 0
}
