package server

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// answerBehind carries out a request that may be too much for the committer, once all that its connection has in the queue is
// answered.
func (c *conn) answerBehind(r *request, h wire.RequestHeader, body []byte) error {
	c.s.commitInline(c)
	c.unheard(c.out.drain)
	if c.out.isClosed() || c.ended {
		return errSessionOver
	}
	c.out.write()
	c.answerNow(h, body, r.received)
	r.release()
	if c.ended {
		return errSessionOver
	}
	c.out.write()
	return nil
}

// answerNow carries out a request on the reader's goroutine, which has the turn. It returns the time of the answer.
func (c *conn) answerNow(h wire.RequestHeader, body []byte, received time.Duration) time.Duration {
	s := c.s
	zxid := s.lastZxid.Load()
	switch {
	case h.Op == wire.OpAuth || h.Op == wire.OpSASL:
		zxid = 0
		c.answerAuth(h, c.authenticate(h.Op, body))
	case h.Op == wire.OpPing: // without a lock: a ping must not wait for what others ask
		if c.fenced.Load() {
			c.ended = true
		} else {
			c.out.reply(wire.ReplyHeader{Xid: wire.XidPing, Zxid: zxid})
		}
	case takesLong(h.Op, len(body)):
		zxid, _ = c.answerLarge(h, body, s.answerBytes(h.Op, body))
	default:
		s.state.RLock()
		if c.fenced.Load() {
			c.ended = true
		} else {
			zxid = s.tree.LastZxid()
			c.answer(h, body, c.who)
		}
		s.state.RUnlock()
		if !c.ended && c.turn.wants > 0 {
			zxid, _ = c.answerLarge(h, body, c.turn.wants)
		}
	}
	now := s.now()
	c.countAnswer(h, zxid, received, now)
	return now
}

// end makes the last answer the final one: later requests are not carried out. The caller has the turn.
func (c *conn) end() {
	c.ended = true
	c.out.finish()
}

// answer carries out a request that is not a write, and answers it. The caller has the turn and holds Server.state, for
// reading at least. who is the identities that the connection had when the request's turn came.
func (c *conn) answer(h wire.RequestHeader, body []byte, who tree.Identities) {
	t := &c.turn
	t.granted, t.wants, t.bytes = 0, 0, 0
	serve, ok := answers[h.Op]
	if !ok {
		c.out.reply(wire.ReplyHeader{Xid: h.Xid, Zxid: -1, Err: zk.ErrUnimplemented})
		c.end()
		return
	}
	t.c, t.who, t.h = c, who, wire.ReplyHeader{Xid: h.Xid, Zxid: c.s.tree.LastZxid()}
	t.d.Reset(body)
	serve(t)
	t.d.Reset(nil) // a large frame must not be kept for as long as the connection is silent
}
