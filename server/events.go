package server

import (
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// tell sends the events of changes that by has made, to the watchers that may read the znode.
func (s *Server) tell(effects []tree.Effect, by *conn) {
	for i := range effects {
		e := &effects[i]
		s.watchMu.Lock()
		s.deliveries = s.watches.Trigger(s.deliveries[:0], e.Event)
		s.watchMu.Unlock()
		for _, d := range s.deliveries {
			if c := s.connection(uint64(d.To)); c != nil && !c.fenced.Load() && c.sendEvent(d.Event, e.ACL) {
				s.touchUp(c)
				if c != by && d.Once && e.Event.Type == zk.NodeDeleted {
					s.handedOver = e.Event.Path
				}
			}
		}
	}
}

// sendEvent adds an event if the client may read the znode, and reports whether it did.
func (c *conn) sendEvent(ev zk.Event, acl *tree.AccessList) bool {
	b, start := c.out.begin(wire.ReplyHeader{Xid: wire.XidEvent, Zxid: ev.Zxid})
	may := c.who.May(acl, zk.PermRead)
	if !may {
		c.out.cancel()
		return false
	}
	w := wire.WatcherEvent{Type: ev.Type, State: wire.StateConnected, Path: ev.Path}
	c.out.end(w.AppendTo(b), start)
	c.events++
	c.counters.sent.Add(1)
	c.s.counters.sent.Add(1)
	return true
}
