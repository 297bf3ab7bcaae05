package server

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A request is something to be committed in its turn: all writes, all that concerns a
// session's life, and whatever a connection asks for behind one of those.
type request struct {
	// Set before it enters the queue.
	conn     *conn // nil if the server asks itself
	session  int64
	xid      int32
	op       wire.Op
	weight   int           // as counted in the connection's output: the bytes of the frame, and those that its answer is expected to take
	work     int           // about how many operations it is worth, if it is a write
	taken    int           // of queue.taken, when it came to queue.later
	received time.Duration // on the server's clock
	frame    []byte        // of a connection's request; what follows points into it
	body     []byte        // of what is not a write: still to be decoded
	code     zk.Code       // of a write that is refused already
	single   wire.MultiOp
	multi    []wire.MultiOp
	acl      wire.SetACLRequest
	attach   *attachment   // not nil if this is a connection's wish for a session; op then says nothing
	done     chan struct{} // closed when the request is done with; may be nil

	// Set by the committer, when it decides.
	fate decision
	who  tree.Identities
	txn  txn.Txn
}

// A decision is what has been decided to do with a request.
type decision uint8

const (
	dropped  decision = iota // nothing, not even an answer
	logged                   // txn is to be logged, applied and answered
	unlogged                 // it is to be carried out in its turn, without a transaction
)

var requests = sync.Pool{New: func() any { return new(request) }}

func (r *request) release() {
	if r.done != nil {
		close(r.done)
	}
	frame := r.frame // the tree has copied what it keeps, names and data
	if cap(frame) > frameKeep {
		frame = nil
	}
	*r = request{frame: frame}
	requests.Put(r)
}

// isWrite reports whether op takes a place in the order of all changes.
func isWrite(op wire.Op) bool {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete,
		wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig, wire.OpCloseSession:
		return true
	}
	return false
}

// decodeWrite reads the record of a write. What cannot be decoded becomes a refused write: it is
// answered, and takes its place in the log, in its turn. A multi may have opsMax operations; reconfigCode
// is the answer to a reconfig.
func (r *request) decodeWrite(body []byte, opsMax int, reconfigCode zk.Code) {
	d := wire.NewDecoder(body)
	o := &r.single
	o.Op = r.op
	switch r.op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		o.Path, o.Data, o.ACL, o.Mode = d.StringView(), d.Buffer(), d.ACL(), zk.Mode(d.Int32())
		if r.op == wire.OpCreateTTL {
			o.TTL = d.Int64()
		}
	case wire.OpDelete:
		o.Path, o.Version = d.StringView(), d.Int32()
	case wire.OpSetData:
		o.Path, _ = d.NullStringView() // which is no path, and refused as one
		o.Data, o.Version = d.Buffer(), d.Int32()
	case wire.OpSetACL:
		r.acl.Path, _ = d.NullString()
		r.acl.ACL, r.acl.Version = d.ACL(), d.Int32()
	case wire.OpMulti:
		m := wire.MultiRequest{Max: opsMax}
		m.DecodeFrom(d)
		r.multi = m.Ops
		if !multiValid(m.Ops) {
			d.Fail(errMultiKinds)
		}
	case wire.OpReconfig:
		new(wire.ReconfigRequest).DecodeFrom(d)
		r.code = reconfigCode
	}
	switch {
	case d.Err() != nil:
		r.code = zk.ErrMarshalling
	case r.tooManyACLs():
		r.code = zk.ErrInvalidACL
	}
	r.work = r.howMuchWork()
}

// howMuchWork is about how many operations the request is worth.
func (r *request) howMuchWork() int {
	entries := entriesOf(r.single.ACL) + entriesOf(r.acl.ACL)
	levels := levelsOf(r.single.Path) + levelsOf(r.acl.Path)
	for i := range r.multi {
		entries += entriesOf(r.multi[i].ACL)
		levels += levelsOf(r.multi[i].Path)
	}
	return max(len(r.multi), 1) + entries/entriesPerOp + levels/levelsPerOp + r.workOfCounting()
}

// levelsPerOp is how many levels of paths cost about as much as an operation.
const levelsPerOp = 32

// levelsOf returns how many znodes are above the one at path.
func levelsOf(path string) int { return strings.Count(path, "/") }

// workOfCounting is about how many operations it is worth to count the usages that the request may create. They are counted
// in one walk, which may take in all znodes.
func (r *request) workOfCounting() int {
	counts := tree.CountsUsage(r.single.Path)
	for i := range r.multi {
		counts = counts || tree.CountsUsage(r.multi[i].Path)
	}
	if !counts || r.conn == nil {
		return 0
	}
	s := r.conn.s
	s.state.RLock()
	defer s.state.RUnlock()
	return s.tree.Count() / znodesPerOp
}

// znodesPerOp is how many znodes are counted in about the time of an operation.
const znodesPerOp = 16

// entriesPerOp is how many entries of access control lists cost about as much as an operation.
const entriesPerOp = 4

// entriesOf returns how many entries a list has. Each "auth" entry but one, which has its use, counts as all that it may
// stand for.
func entriesOf(acl []zk.ACL) int {
	n := len(acl)
	if n > 1 {
		own := 0
		for i := range acl {
			if acl[i].Scheme == tree.SchemeAuth {
				own++
			}
		}
		n += identitiesMax * max(own-1, 0)
	}
	return n
}

var errMultiKinds = errors.New("operation that does not belong into this kind of multi")

// multiValid reports whether ops may stand in a multi: only writes, and only modes that exist, those
// with a time to live only where there is a field for it.
func multiValid(ops []wire.MultiOp) bool {
	for i := range ops {
		switch ops[i].Op {
		case wire.OpGetData, wire.OpGetChildren:
			return false
		}
		if m := ops[i].Mode; !m.Valid() || m.TTL() && ops[i].Op != wire.OpCreateTTL {
			return false
		}
	}
	return true
}

func (r *request) tooManyACLs() bool {
	n := max(len(r.single.ACL), len(r.acl.ACL))
	for i := range r.multi {
		n = max(n, len(r.multi[i].ACL))
	}
	return n > tree.ACLEntriesMax
}
