package server

import (
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// One goroutine at a time makes changes: the committer. It is the reader of a connection whose request has found no
// committer at work, which saves two changes of goroutine (commitInline), or else commitLoop. The committer takes the
// requests that have gathered in the queue and carries them out in three steps:
//
//  1. decide: in their order, each request becomes a transaction, or is set aside to be carried out
//     later in its place, or is dropped because its connection has lost the session;
//  2. log: all transactions are written together and synced once. Meanwhile the next batch gathers;
//  3. finish: in the same order, transactions are applied, events are sent, and requests are answered,
//     under the lock that keeps readers out.
//
// When the disk fails, the batch and all later requests are dropped unanswered, and the server ends.
func (s *Server) commitLoop() {
	var items []*request
	for {
		items = s.queue.next(items)
		if len(items) == 0 {
			return
		}
		s.commitAll(items, nil)
	}
}

// commitInline commits the requests that wait, on the goroutine of c's reader, unless there is a committer already. The
// answers to c leave last: a client that does not take them must not keep the others waiting.
func (s *Server) commitInline(c *conn) {
	items := s.queue.takeInline()
	if items == nil {
		return
	}
	began := s.now()
	s.inlineSession.Store(c.session)
	s.commitAll(items, c)
	if now := s.now(); now-began > s.opts.TickTime/2 { // what the client has sent meanwhile is read next
		s.sessions.Lock()
		s.sessions.table.Renew(c.session, now)
		s.sessions.Unlock()
	}
	s.inlineSession.Store(0)
	s.queue.pass(items)
	c.gathers = c.inputWaits()
	c.out.write()
}

// commitAll commits requests and sends the answers, except those of one connection if except is not nil.
func (s *Server) commitAll(items []*request, except *conn) {
	for len(items) > 0 {
		n := s.commit(items[:min(len(items), batchMax)], except)
		items = items[n:]
	}
}

// directOutputs is to how many connections the committer itself sends what a batch has for them: it is little, and waking the goroutines
// that send takes longer. What is for more connections leaves from several processors.
const directOutputs = 16

// commit carries out the first requests of a batch, at least one, and returns how many.
func (s *Server) commit(batch []*request, except *conn) int {
	if s.failed {
		s.drop(batch)
		return len(batch)
	}
	s.committing.Store(max(int64(s.now()), 1))
	defer s.committing.Store(0)
	batch = s.decideAll(batch)
	if e, ok := s.draft.Excess(); ok {
		s.logExcess(e)
	}
	if err := s.logAll(); err != nil {
		s.failed = true
		s.stop(err)
		s.drop(batch)
		return len(batch)
	}
	s.finishAll(batch)
	s.draft.Reset()
	for _, c := range s.dirty {
		c.dirty = false
		if c != except {
			if len(s.dirty) <= directOutputs {
				c.out.sendNow()
			}
			c.out.flush()
		}
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
	s.audit.write(s.log)
	n := len(batch)
	for _, r := range batch {
		r.release()
	}
	s.considerSnapshot()
	return n
}

func (s *Server) drop(batch []*request) {
	for _, r := range batch {
		if r.conn != nil && r.attach == nil {
			r.conn.ended = true // as in decide
			r.conn.noteDone(r)
		}
		r.release()
	}
}

// place assigns r the next place in the order of all changes.
func (s *Server) place(r *request) *tree.Request {
	s.lastPlaced++
	s.placed = tree.Request{Session: r.session, Cxid: r.xid, Zxid: s.lastPlaced, Time: s.batchTime, Who: r.who}
	return &s.placed
}

// decideAll decides the first requests of a batch, as many as can be logged together, and returns them.
func (s *Server) decideAll(batch []*request) []*request {
	s.batchTime = s.opts.wall().UnixMilli()
	s.records = s.records[:0]
	bytes := 0 // of the requests with their answers, or of their transactions where those are larger, as when sessions end
	for i, r := range batch {
		bytes += r.weight
		if i > 0 && bytes > batchBytesMax {
			return batch[:i]
		}
		s.decide(r)
		if r.fate != logged {
			continue
		}
		spared := r.txn.Type == wire.OpCloseSession && completePaths(&r.txn)
		if txnBytes(&r.txn) > store.TxnBytesMax {
			// The draft contains its changes, and only a reset removes them. The requests
			// before it are logged first; then it is decided again, and refused.
			s.lastPlaced--
			r.code = zk.ErrMarshalling
			if i > 0 {
				return batch[:i]
			}
			s.draft.Reset()
			s.decide(r)
		}
		rec := store.Record{Txn: &r.txn}
		if r.txn.Type != wire.OpError && !spared {
			rec.Digest, _ = s.draft.Digest() // none is logged if the tree keeps none
		}
		s.records = append(s.records, rec)
		bytes += max(txnBytes(&r.txn)-r.weight, 0)
	}
	return batch
}

// decide sets the fate of one request.
func (s *Server) decide(r *request) {
	r.fate = dropped
	if r.attach != nil {
		s.decideAttach(r)
		return
	}
	if c := r.conn; c != nil {
		if c.ended || !s.owns(c) {
			c.ended = true // an answer to what comes behind it would be taken for the answer to this
			return
		}
		r.who = c.who
	}
	switch {
	case r.op == wire.OpCloseSession:
		s.decideClose(r)
	case isWrite(r.op) || r.op == wire.OpDeleteContainer && r.conn == nil:
		r.fate, r.txn = logged, s.decideWrite(r)
	default:
		r.fate = unlogged
		switch _, known := answers[r.op]; {
		case r.op == wire.OpAuth || r.op == wire.OpSASL:
			r.code = r.conn.authenticate(r.op, r.body)
		case !known:
			r.conn.ended = true
		}
	}
}

func (s *Server) decideWrite(r *request) txn.Txn {
	at := s.place(r)
	switch {
	case r.code != zk.OK:
		return s.draft.Fail(at, r.code)
	case r.op == wire.OpMulti:
		return s.draft.Multi(at, r.multi)
	case r.op == wire.OpSetACL:
		return s.draft.SetACL(at, &r.acl)
	case r.op == wire.OpDeleteContainer:
		return s.draft.DeleteContainer(at, r.single.Path)
	}
	return s.draft.Op(at, &r.single)
}

// decideClose ends a session, because its client asks for that or because it has expired. Later requests of its
// connection are dropped.
func (s *Server) decideClose(r *request) {
	if r.conn != nil {
		s.sessions.Lock()
		s.sessions.table.BeginClose(r.session)
		s.sessions.Unlock()
		r.conn.ended = true
	}
	r.fate, r.txn = logged, s.draft.CloseSession(s.place(r))
}

// owns reports whether c owns its session and the session is alive.
func (s *Server) owns(c *conn) bool {
	s.sessions.Lock()
	defer s.sessions.Unlock()
	return s.sessions.table.Owns(c.session, c.id)
}

// logAll makes the batch's transactions durable.
func (s *Server) logAll() error {
	if len(s.records) == 0 {
		return nil
	}
	if err := s.store.Append(s.records); err != nil {
		return err
	}
	appended := s.now()
	if err := s.store.Sync(); err != nil {
		return err
	}
	took := s.now() - appended
	s.counters.syncs.Add(int64(took))
	s.counters.batches.Add(int64(len(s.records)))
	if took >= s.opts.SlowSync {
		s.counters.slowSyncs.Add(1)
		s.log.Warn("the disk is slow: a sync of the transaction log took long, and every write waited for it", "took", took)
	}
	return nil
}

// finishAll applies the transactions, sends events and answers requests.
func (s *Server) finishAll(batch []*request) {
	for len(batch) > 0 {
		batch = batch[s.finishSome(batch):]
	}
}

// finishSome is finishAll for the first requests, at least one, and returns how many. Behind pieceBytes of answers to reads it lets readers
// in: there may be more to read than when the requests came, since others have been carried out before them.
func (s *Server) finishSome(batch []*request) int {
	now := s.lockState()
	defer s.unlockState(now)
	done, read := 0, 0
	for ; done < len(batch) && read < pieceBytes; done++ {
		r := batch[done]
		if r.fate == logged {
			s.tree.Apply(&r.txn, &s.outcome)
			s.digests.note(s.tree)
			s.sinceSnapshot++
			s.tell(s.outcome.Effects, r.conn)
			s.lastZxid.Store(s.tree.LastZxid())
			if r.txn.Type == wire.OpCloseSession {
				s.finishClose(r)
			}
		}
		c := r.conn
		if c == nil {
			continue
		}
		h := wire.RequestHeader{Xid: r.xid, Op: r.op}
		switch {
		case r.fate == dropped:
		case r.attach != nil:
			s.finishAttach(r)
		case r.fate == logged:
			c.answerWrite(h, &s.outcome)
			s.audit.change(r, &s.outcome, now)
		case r.op == wire.OpAuth || r.op == wire.OpSASL:
			c.answerAuth(h, r.code)
		case !c.fenced.Load():
			c.answer(h, r.body, r.who)
			if c.turn.wants > 0 {
				c.answerAtOnce(h, r.body, r.who)
			}
			read += c.turn.bytes
		}
		if r.attach == nil {
			if r.fate != dropped {
				c.countAnswer(h, s.tree.LastZxid(), r.received, now)
			}
			c.noteDone(r)
		}
		s.touchUp(c)
	}
	s.noteHandOver(now)
	return done
}

// touchUp notes that a connection has something to send at the end of the batch.
func (s *Server) touchUp(c *conn) {
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, c)
	}
}

// finishClose removes a closed session, and ends its connection behind the answer.
func (s *Server) finishClose(r *request) {
	s.sessions.Lock()
	owner := s.sessions.table.Owner(r.session)
	s.sessions.table.Remove(r.session)
	s.sessions.Unlock()
	if c := s.connection(owner); c != nil && c != r.conn {
		s.fence(c)
	}
}

// answerWrite answers a write that has been applied.
func (c *conn) answerWrite(h wire.RequestHeader, out *tree.Outcome) {
	b, start := c.out.begin(wire.ReplyHeader{Xid: h.Xid, Zxid: c.s.tree.LastZxid(), Err: out.Err})
	if out.Err == zk.OK {
		switch h.Op {
		case wire.OpCreate:
			b = wire.AppendString(b, out.Path)
		case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
			b = wire.AppendStat(wire.AppendString(b, out.Path), &out.Stat)
		case wire.OpSetData, wire.OpSetACL:
			b = wire.AppendStat(b, &out.Stat)
		case wire.OpMulti:
			m := wire.MultiResponse{Results: out.Multi}
			b = m.AppendTo(b)
		}
	}
	c.out.end(b, start)
	if h.Op == wire.OpCloseSession {
		c.fenced.Store(true)
		c.out.finish()
	}
}
