package tree

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Options are the rules of a server that vary.
type Options struct {
	// ExtendedTypes allows znodes with a time to live.
	ExtendedTypes bool
	// EphemeralBytesMax bounds the bytes of all paths of one session's ephemerals, because the
	// transaction that closes the session lists them; 0 is no bound. A create beyond it is
	// answered with ErrQuotaExceeded.
	EphemeralBytesMax int
	// EnforceQuota makes the hard limits of quotas binding: a create or set beyond one is answered
	// with ErrQuotaExceeded.
	EnforceQuota bool
	// Secure closes the root and everything below /zookeeper to changes by clients other than super; see guarded.
	Secure bool
	// NeverUsed is the age in milliseconds at which a container that never had a child is reaped;
	// 0 is never.
	NeverUsed int64
}

// Request says which session asks for a change, with which identities, and which place in the order of
// all changes is set aside for it. Every request takes its place, also one that fails.
type Request struct {
	Session int64
	Cxid    int32
	Zxid    int64
	Time    int64 // milliseconds since 1970
	Who     Identities
}

// A Draft is the tree as it will be once every transaction it has given out is applied. It decides
// requests in the order in which their transactions are going to be applied, and turns each into
// the transaction to log. The tree underneath does not change; between the first decision and
// Reset nothing may be applied to it but these transactions, all of them, in order, after the last
// decision.
//
// A refused request gives a transaction of type OpError with the code; a multi that fails gives
// one of type OpMulti whose parts say which operation failed. No memory of the request, be it a path or
// data, may be changed before the transaction has been applied and the draft reset.
//
// The overlay underneath is in overlay.go; what each operation checks is in decide.go.
type Draft struct {
	options  Options
	excess   Excess
	expanded int // bytes of identities in place of "auth", of the request that is being decided
	overlay
}

// NewDraft returns a draft over t with nothing pending.
func NewDraft(t *Tree, o Options) *Draft {
	d := &Draft{options: o}
	d.overlay.init(t)
	return d
}

// Reset forgets what was decided: it has been applied, or never will be.
func (d *Draft) Reset() {
	d.excess = Excess{}
	d.overlay.reset()
}

// Op decides a create, create2, createContainer, createTTL, delete or setData. A check on its own
// is ErrUnimplemented: no server could replay it.
func (d *Draft) Op(r *Request, op *wire.MultiOp) txn.Txn {
	d.expanded = 0
	if op.Op == wire.OpCheck {
		return d.Fail(r, zk.ErrUnimplemented)
	}
	c, code := d.decide(r, op)
	return r.txn(c, code)
}

// Multi decides operations that happen together or not at all.
func (d *Draft) Multi(r *Request, ops []wire.MultiOp) txn.Txn {
	d.expanded = 0
	for i := range ops {
		if creates(ops[i].Op) && !ops[i].Mode.Valid() {
			return d.Fail(r, zk.ErrMarshalling)
		}
	}
	subs := make([]txn.Change, len(ops))
	d.begin()
	d.undo = slices.Grow(d.undo, 2*len(ops)) // as in CloseSession
	failed := false
	for i := range ops {
		code := zk.ErrRuntimeInconsistency
		if !failed {
			subs[i], code = d.decide(r, &ops[i])
		}
		if code != zk.OK {
			subs[i] = txn.Change{Type: wire.OpError, Err: code}
			failed = true
		}
	}
	d.end(!failed)
	return r.txn(txn.Change{Type: wire.OpMulti, Subs: subs}, zk.OK)
}

// SetACL decides a change of an access control list.
func (d *Draft) SetACL(r *Request, q *wire.SetACLRequest) txn.Txn {
	d.expanded = 0
	c, code := d.decideSetACL(r, q)
	return r.txn(c, code)
}

// DeleteContainer decides whether a candidate of the reaper is still one at r.Time. If not it is
// ErrNoNode, ErrNotEmpty or ErrBadVersion.
func (d *Draft) DeleteContainer(r *Request, path string) txn.Txn {
	c, code := d.decideReap(r, path)
	return r.txn(c, code)
}

// CreateSession gives the transaction that opens r.Session with a timeout in milliseconds.
func (d *Draft) CreateSession(r *Request, timeout int32) txn.Txn {
	return r.txn(txn.Change{Type: wire.OpCreateSession, Timeout: timeout}, zk.OK)
}

// CloseSession gives the transaction that deletes all ephemerals of r.Session, those included that
// are still pending. Later requests of the session are refused with ErrSessionExpired.
func (d *Draft) CloseSession(r *Request) txn.Txn {
	paths := d.ephemerals(r.Session)
	d.nodes = slices.Grow(d.nodes, len(paths)) // tens of thousands at once would be copied a dozen times
	for _, path := range paths {
		d.delete(path, r.Zxid)
	}
	d.closed[r.Session] = struct{}{}
	return r.txn(txn.Change{Type: wire.OpCloseSession, Paths: paths}, zk.OK)
}

// Fail gives the transaction of a request that was refused elsewhere.
func (d *Draft) Fail(r *Request, code zk.Code) txn.Txn { return r.txn(txn.Change{}, code) }

// Digest returns the sum over the tree after the last transaction given out, which the log wants
// before that is applied. If the tree keeps none, the sum is the zero Digest and ok false.
func (d *Draft) Digest() (sum txn.Digest, ok bool) {
	if !d.tree.digests {
		return txn.Digest{}, false
	}
	return txn.Digest{Version: digestVersion, Tree: d.tree.digest + d.grown}, true
}

func (r *Request) txn(c txn.Change, code zk.Code) txn.Txn {
	if code != zk.OK {
		c = txn.Change{Type: wire.OpError, Err: code}
	}
	return txn.Txn{Session: r.Session, Cxid: r.Cxid, Zxid: r.Zxid, Time: r.Time, Change: c}
}
