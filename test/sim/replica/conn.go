package replica

import (
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/watch"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A conn is a client's connection, and one to the leader for what is passed on. All of it is guarded by
// Replica.mu.
type conn struct {
	r       *Replica
	id      watch.Watcher
	down    *outbox // to the client
	up      *outbox // to the leader
	pending []*request
	heard   bool  // of the client since the last relay
	gone    bool  // the client has hung up, and its watches are removed
	ending  bool  // the leader has hung up
	endZxid int64 // what it had committed then
}

// A request waits for its turn to be answered.
type request struct {
	wire.RequestHeader
	body   []byte
	passed bool   // to the leader
	reply  []byte // the leader's, nil until it is here
	zxid   int64  // of the reply
}

// serve sees a client's connection from its handshake to its end.
func (r *Replica) serve(nc net.Conn) {
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(handshakeMax))
	frame, err := wire.ReadFrame(nc, nil, wire.FrameBytesMax)
	var q wire.ConnectRequest
	if err != nil || wire.Unmarshal(frame, &q) != nil {
		return
	}
	r.mu.Lock()
	serves := !r.closed && r.cut == Whole && q.LastZxid <= r.tree.LastZxid()
	r.mu.Unlock()
	if !serves {
		return
	}
	leader, answer, err := r.shake(&q, frame)
	if err != nil {
		return
	}
	defer leader.Close()
	leader.SetDeadline(time.Time{})
	nc.SetDeadline(time.Time{})
	k := &conn{r: r, down: newOutbox(nc), up: newOutbox(leader)}
	r.mu.Lock()
	if r.closed || r.cut != Whole {
		r.mu.Unlock()
		return
	}
	r.last++
	k.id = r.last
	r.conns[k.id] = k
	r.mu.Unlock()
	k.down.add(answer)

	var wg sync.WaitGroup
	wg.Go(k.down.run)
	wg.Go(k.up.run)
	wg.Go(func() { k.replies(leader) })
	k.requests(nc)
	r.mu.Lock()
	k.gone = true
	k.endLocked()
	delete(r.conns, k.id)
	r.watches.RemoveAll(k.id)
	r.mu.Unlock()
	wg.Wait()
}

// shake passes a wish for a session on to the leader.
func (r *Replica) shake(q *wire.ConnectRequest, frame []byte) (leader net.Conn, answer []byte, err error) {
	if leader, err = r.dial(); err != nil {
		return nil, nil, err
	}
	leader.SetDeadline(time.Now().Add(handshakeMax))
	if err = writeFrame(leader, frame); err == nil {
		answer, err = wire.ReadFrame(leader, nil, wire.FrameBytesMax)
	}
	if err != nil {
		leader.Close()
		return nil, nil, err
	}
	r.mu.Lock()
	forgets := r.forgets
	r.mu.Unlock()
	var resp wire.ConnectResponse
	if wire.Unmarshal(answer, &resp) == nil && resp.Timeout <= 0 && forgets && q.SessionID != 0 {
		leader.Close()
		q.SessionID, q.Password = 0, make([]byte, 16)
		return r.shake(q, q.AppendTo(nil))
	}
	return leader, answer, nil
}

// handshakeMax is how long a client may take to ask for a session, and then the leader to answer.
const handshakeMax = time.Second

// endLocked ends both halves.
func (k *conn) endLocked() {
	k.down.close()
	k.up.close()
}

// requests takes what the client sends.
func (k *conn) requests(nc net.Conn) {
	for {
		frame, err := wire.ReadFrame(nc, nil, wire.FrameBytesMax)
		if err != nil {
			return
		}
		q := &request{}
		d := wire.NewDecoder(frame)
		q.DecodeFrom(d)
		if d.Err() != nil {
			return
		}
		q.body = d.Rest()
		k.r.mu.Lock()
		k.heard = true
		_, local := answers[q.Op]
		q.passed = !local && !(q.Op == wire.OpSync && k.r.cut == LostLeader)
		if q.passed && k.r.cut == Whole {
			k.up.add(frame)
		}
		k.pending = append(k.pending, q)
		k.pumpLocked()
		k.r.mu.Unlock()
	}
}

// replies takes what the leader answers.
func (k *conn) replies(leader net.Conn) {
	for {
		frame, err := wire.ReadFrame(leader, nil, wire.FrameBytesMax)
		k.r.mu.Lock()
		if err != nil {
			k.ending, k.endZxid = true, k.r.newest
			k.pumpLocked()
			k.r.mu.Unlock()
			return
		}
		var h wire.ReplyHeader
		h.DecodeFrom(wire.NewDecoder(frame))
		if h.Xid != wire.XidPing && k.r.cut == Whole {
			for _, q := range k.pending {
				if q.passed && q.reply == nil {
					q.reply, q.zxid = frame, h.Zxid
					break
				}
			}
			k.pumpLocked()
		}
		k.r.mu.Unlock()
	}
}

// pumpLocked answers what can be answered, in the order of the requests. What is still to be answered when the client has hung
// up never is: a read would set a watch that no connection removes.
func (k *conn) pumpLocked() {
	if k.gone {
		return
	}
	zxid := k.r.tree.LastZxid()
	for len(k.pending) > 0 {
		q := k.pending[0]
		switch {
		case !q.passed:
			k.answerLocked(q)
		case q.reply != nil && q.zxid <= zxid:
			k.down.add(q.reply)
		case k.ending && k.endZxid <= zxid && q.reply == nil && k.r.cut == Whole:
			k.endLocked()
			return
		default:
			return
		}
		k.pending = k.pending[1:]
	}
	if k.ending && k.endZxid <= zxid && k.r.cut == Whole {
		k.endLocked()
	}
}

// eventLocked sends an event.
func (k *conn) eventLocked(ev zk.Event) {
	b := (&wire.ReplyHeader{Xid: wire.XidEvent, Zxid: ev.Zxid}).AppendTo(nil)
	k.down.add((&wire.WatcherEvent{Type: ev.Type, State: wire.StateConnected, Path: ev.Path}).AppendTo(b))
}
