package faultproxy

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Request is one that a client sent. The handshake is one too, with Op wire.OpCreateSession.
type Request struct {
	Conn   int    // number of the connection, from 1 in the order in which clients opened them
	Server string // address that the connection goes to

	Op    wire.Op
	Xid   int32
	Path  string // of a multi, the path of its first operation
	Watch bool   // the read asks for a watch
	Steps []Step // the operations of a multi, the paths of a setWatches

	// Body is the record behind the header, for a Match.Where that wants to know more. It must
	// not be changed.
	Body []byte
}

// A Step is one part of a request that has several.
type Step struct {
	Op   wire.Op
	Path string
}

func (r Request) String() string {
	return fmt.Sprintf("connection %d: %v %s (xid %d)", r.Conn, r.Op, r.Path, r.Xid)
}

// A Reply is a server's answer to a Request.
type Reply struct {
	Xid  int32
	Zxid int64
	Err  zk.Code

	// Body is the record behind the header. It must not be changed.
	Body []byte
}

// decodeHandshake reads the first frame of a connection.
func decodeHandshake(frame []byte) Request {
	return Request{Op: wire.OpCreateSession, Body: frame}
}

// decodeRequest reads any later frame from a client. A frame that does not decode still is a
// request, with as much as could be read: servers must be tested with those as well.
func decodeRequest(frame []byte) Request {
	d := wire.NewDecoder(frame)
	var h wire.RequestHeader
	h.DecodeFrom(d)
	r := Request{Op: h.Op, Xid: h.Xid, Body: d.Rest()}
	switch h.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete,
		wire.OpSetData, wire.OpGetACL, wire.OpSetACL, wire.OpSync, wire.OpCheck,
		wire.OpAllChildrenCount, wire.OpCheckWatches, wire.OpRemoveWatches:
		r.Path = d.String()
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2:
		r.Path, r.Watch = d.String(), d.Bool()
	case wire.OpAddWatch:
		r.Path, r.Watch = d.String(), true
	case wire.OpGetEphemerals:
		r.Path, _ = d.NullString()
	case wire.OpMulti, wire.OpMultiRead:
		var m wire.MultiRequest
		m.DecodeFrom(d)
		for _, o := range m.Ops {
			r.Steps = append(r.Steps, Step{o.Op, o.Path})
		}
	case wire.OpSetWatches, wire.OpSetWatches2:
		var s wire.SetWatchesRequest
		s.DecodeFrom(d)
		for _, list := range [][]string{s.Data, s.Exist, s.Child, s.Persistent, s.Recursive} {
			for _, p := range list {
				r.Steps = append(r.Steps, Step{h.Op, p})
			}
		}
	}
	if len(r.Steps) > 0 {
		r.Path = r.Steps[0].Path
	}
	return r
}

// decodeReply reads any frame from a server but the first.
func decodeReply(frame []byte) Reply {
	d := wire.NewDecoder(frame)
	var h wire.ReplyHeader
	h.DecodeFrom(d)
	return Reply{Xid: h.Xid, Zxid: h.Zxid, Err: h.Err, Body: d.Rest()}
}
