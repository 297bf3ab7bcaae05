// Package txn defines the transactions of the server: what was decided about a request, in a form
// that can be logged, applied and applied again. The encoding is that of Apache ZooKeeper's
// transaction log, so that either server reads what the other wrote.
//
// A transaction says what the result is, not what was asked: final names, new versions, absolute
// counters. That makes applying it the same on every server and in every replay.
package txn

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Txn is one transaction: the session that asked for it, its place in the order of all changes, and what it does.
type Txn struct {
	Session int64 // that asked; 0 for the server's own reaper
	Cxid    int32 // the request's xid; 0 for expiries and for the reaper
	Zxid    int64
	Time    int64 // milliseconds since 1970, chosen once, so that ctime and mtime replay the same
	Change
}

// A Change is what a transaction does. Which fields count depends on Type.
type Change struct {
	Type wire.Op

	Path string   // all but sessions, multi and errors; final, with the sequence counter
	Data []byte   // create, set; nil is null
	ACL  []zk.ACL // create, setACL; "auth" entries have been replaced

	Ephemeral      bool  // OpCreate, OpCreate2: owned by Txn.Session
	ParentCversion int32 // creates: the parent's stored create counter after this create; -1: one more than it is
	TTL            int64 // OpCreateTTL, in milliseconds
	Version        int32 // set, setACL, reconfig: the new version; check: the version checked plus one

	Timeout int32    // OpCreateSession, in milliseconds
	Paths   []string // OpCloseSession: ephemerals to delete; nil if the record does not say (before 3.6)

	Err  zk.Code  // OpError
	Subs []Change // OpMulti; if any is an OpError, nothing of the multi is applied
}

// Failed reports whether a multi is to be applied not at all.
func (c *Change) Failed() bool {
	for i := range c.Subs {
		if c.Subs[i].Type == wire.OpError {
			return true
		}
	}
	return false
}

// A Digest is the sum over the whole tree after a transaction.
type Digest struct {
	Version int32
	Tree    uint64
}

// AppendTo appends the header and the record.
func (t *Txn) AppendTo(b []byte) []byte {
	b = wire.AppendInt64(b, t.Session)
	b = wire.AppendInt32(b, t.Cxid)
	b = wire.AppendInt64(b, t.Zxid)
	b = wire.AppendInt64(b, t.Time)
	b = wire.AppendInt32(b, int32(t.Type))
	return t.Change.appendTo(b)
}

// AppendTo appends the digest, which stands behind a transaction's record.
func (d Digest) AppendTo(b []byte) []byte {
	return wire.AppendInt64(wire.AppendInt32(b, d.Version), int64(d.Tree))
}

func (c *Change) appendTo(b []byte) []byte {
	switch c.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		b = wire.AppendString(b, c.Path)
		b = wire.AppendBuffer(b, c.Data)
		b = wire.AppendACL(b, c.ACL)
		if c.Type == wire.OpCreate || c.Type == wire.OpCreate2 {
			b = wire.AppendBool(b, c.Ephemeral)
		}
		b = wire.AppendInt32(b, c.ParentCversion)
		if c.Type == wire.OpCreateTTL {
			b = wire.AppendInt64(b, c.TTL)
		}
	case wire.OpDelete, wire.OpDeleteContainer:
		b = wire.AppendString(b, c.Path)
	case wire.OpSetData, wire.OpReconfig:
		b = wire.AppendInt32(wire.AppendBuffer(wire.AppendString(b, c.Path), c.Data), c.Version)
	case wire.OpSetACL:
		b = wire.AppendInt32(wire.AppendACL(wire.AppendString(b, c.Path), c.ACL), c.Version)
	case wire.OpCheck:
		b = wire.AppendInt32(wire.AppendString(b, c.Path), c.Version)
	case wire.OpCreateSession:
		b = wire.AppendInt32(b, c.Timeout)
	case wire.OpCloseSession:
		if c.Paths != nil {
			b = wire.AppendStrings(b, c.Paths)
		}
	case wire.OpError:
		b = wire.AppendInt32(b, int32(c.Err))
	case wire.OpMulti:
		b = wire.AppendInt32(b, int32(len(c.Subs)))
		for i := range c.Subs {
			sub := &c.Subs[i]
			typ := sub.Type
			if typ == wire.OpCreate2 {
				typ = wire.OpCreate // releases before 3.8.3 skip a whole multi that holds a 15
			}
			b = wire.AppendInt32(b, int32(typ))
			var start int
			b, start = wire.BeginFrame(b) // a buffer has the shape of a frame
			b = wire.EndFrame(sub.appendTo(b), start)
		}
	}
	return b
}

// digestBytes is what a Digest takes.
const digestBytes = 12

// Decode reads a transaction and the digest behind it, if there is one. Data points into b.
func Decode(b []byte) (t Txn, digest *Digest, err error) {
	d := wire.NewDecoder(b)
	t.Session, t.Cxid, t.Zxid, t.Time = d.Int64(), d.Int32(), d.Int64(), d.Int64()
	t.Type = wire.Op(d.Int32())
	if d.Err() != nil {
		return Txn{}, nil, fmt.Errorf("transaction header: %w", d.Err())
	}
	t.Change.decodeFrom(d, true)
	if d.Err() != nil {
		return Txn{}, nil, fmt.Errorf("%v transaction 0x%x: %w", t.Type, t.Zxid, d.Err())
	}
	if len(d.Rest()) >= digestBytes {
		digest = &Digest{Version: d.Int32(), Tree: uint64(d.Int64())}
	}
	return t, digest, nil
}

var errNested = errors.New("multi within a multi")

// decodeFrom reads a change of type c.Type; top says that it is not part of a multi.
func (c *Change) decodeFrom(d *wire.Decoder, top bool) {
	switch c.Type {
	case wire.OpCreate, wire.OpCreate2:
		c.Path, c.Data, c.ACL, c.Ephemeral = d.String(), d.Buffer(), d.ACL(), d.Bool()
		c.ParentCversion = -1 // ZooKeeper 3.3 and before did not log it
		if len(d.Rest()) >= 4 {
			c.ParentCversion = d.Int32()
		}
	case wire.OpCreateContainer:
		c.Path, c.Data, c.ACL, c.ParentCversion = d.String(), d.Buffer(), d.ACL(), d.Int32()
	case wire.OpCreateTTL:
		c.Path, c.Data, c.ACL, c.ParentCversion, c.TTL = d.String(), d.Buffer(), d.ACL(), d.Int32(), d.Int64()
	case wire.OpDelete, wire.OpDeleteContainer:
		c.Path = d.String()
	case wire.OpSetData, wire.OpReconfig:
		c.Path, c.Data, c.Version = d.String(), d.Buffer(), d.Int32()
	case wire.OpSetACL:
		c.Path, c.ACL, c.Version = d.String(), d.ACL(), d.Int32()
	case wire.OpCheck:
		c.Path, c.Version = d.String(), d.Int32()
	case wire.OpCreateSession:
		c.Timeout = d.Int32()
	case wire.OpCloseSession:
		c.Paths = closedPaths(d)
	case wire.OpError:
		c.Err = zk.Code(d.Int32())
	case wire.OpMulti:
		if !top {
			d.Fail(errNested)
			return
		}
		c.Subs = decodeSubs(d)
	default:
		d.Fail(fmt.Errorf("unknown transaction type %d", int32(c.Type)))
	}
}

// subBytesMin is what the smallest part of a multi takes: a type and an empty buffer.
const subBytesMin = 8

func decodeSubs(d *wire.Decoder) []Change {
	n := d.Count(subBytesMin)
	if n < 0 {
		d.Fail(errors.New("multi without parts"))
		return nil
	}
	subs := make([]Change, n)
	for i := range subs {
		subs[i].Type = wire.Op(d.Int32())
		sub := wire.NewDecoder(d.Buffer())
		if d.Err() != nil {
			return nil
		}
		subs[i].decodeFrom(sub, false)
		if sub.Err() != nil {
			d.Fail(fmt.Errorf("part %d: %w", i, sub.Err()))
			return nil
		}
	}
	return subs
}

// closedPaths reads the ephemerals that a closeSession names. Releases before 3.6, and later ones
// with closeSessionTxn.enabled=false, write no list; then either nothing follows or the twelve
// bytes of a digest, which must not be taken for one.
func closedPaths(d *wire.Decoder) []string {
	rest := d.Rest()
	if len(rest) == 0 {
		return nil
	}
	probe := wire.NewDecoder(rest)
	paths := probe.Strings()
	if left := len(probe.Rest()); probe.Err() != nil || paths == nil || left != 0 && left != digestBytes {
		return nil // the digest, if it is one, is left for Decode to read
	}
	d.Reset(probe.Rest())
	return paths
}
