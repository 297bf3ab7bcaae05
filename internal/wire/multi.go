package wire

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A MultiOp is one operation of a multi. Which fields count depends on Op.
type MultiOp struct {
	Op      Op // OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck; in a multiRead OpGetData, OpGetChildren
	Path    string
	Data    []byte   // create, set
	ACL     []zk.ACL // create
	Mode    zk.Mode  // create
	TTL     int64    // create with TTL, in milliseconds
	Version int32    // delete, set, check
}

// A MultiRequest belongs to OpMulti and OpMultiRead.
type MultiRequest struct {
	Ops []MultiOp
	Max int // how many operations DecodeFrom accepts; 0 is any number
}

func appendMultiHeader(b []byte, op Op, done bool, code zk.Code) []byte {
	return AppendInt32(AppendBool(AppendInt32(b, int32(op)), done), int32(code))
}

func (d *Decoder) multiHeader() (op Op, done bool, code zk.Code) {
	return Op(d.Int32()), d.Bool(), zk.Code(d.Int32())
}

// AppendTo appends the record.
func (r *MultiRequest) AppendTo(b []byte) []byte {
	for i := range r.Ops {
		b = r.Ops[i].appendTo(appendMultiHeader(b, r.Ops[i].Op, false, -1))
	}
	return appendMultiHeader(b, OpError, true, -1)
}

func (o *MultiOp) appendTo(b []byte) []byte {
	switch o.Op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		b = (&CreateRequest{o.Path, o.Data, o.ACL, o.Mode}).AppendTo(b)
		if o.Op == OpCreateTTL {
			b = AppendInt64(b, o.TTL)
		}
	case OpDelete, OpCheck:
		b = (&VersionRequest{o.Path, o.Version}).AppendTo(b)
	case OpSetData:
		b = (&SetDataRequest{o.Path, o.Data, o.Version}).AppendTo(b)
	case OpGetData, OpGetChildren:
		b = (&WatchRequest{Path: o.Path}).AppendTo(b)
	}
	return b
}

// DecodeFrom reads the record. An operation that no multi may hold is an error.
func (r *MultiRequest) DecodeFrom(d *Decoder) {
	r.Ops = nil
	for {
		op, done, _ := d.multiHeader()
		if done || d.Err() != nil {
			return
		}
		if r.Max > 0 && len(r.Ops) == r.Max {
			d.Fail(fmt.Errorf("more than %d operations in a multi", r.Max))
			return
		}
		o := MultiOp{Op: op}
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
			var c CreateRequest
			c.DecodeFrom(d)
			o.Path, o.Data, o.ACL, o.Mode = c.Path, c.Data, c.ACL, c.Mode
			if op == OpCreateTTL {
				o.TTL = d.Int64()
			}
		case OpDelete, OpCheck:
			o.Path, o.Version = d.String(), d.Int32()
		case OpSetData:
			o.Path, o.Data, o.Version = d.String(), d.Buffer(), d.Int32()
		case OpGetData, OpGetChildren:
			o.Path = d.String()
			d.Bool() // multiRead sets no watches
		default:
			d.Fail(fmt.Errorf("%v in a multi", op))
			return
		}
		r.Ops = append(r.Ops, o)
	}
}

// A MultiResult is what became of one operation of a multi. Which fields count depends on Op.
type MultiResult struct {
	Op       Op // of the request; OpError if it failed; create2 may be answered as create (ZOOKEEPER-4026)
	Err      zk.Code
	Path     string   // created
	Stat     zk.Stat  // create2, set, get
	Data     []byte   // get
	Children []string // children
}

// A MultiResponse answers OpMulti and OpMultiRead.
type MultiResponse struct {
	Results []MultiResult
	Max     int // how many results DecodeFrom takes, for they need far more memory than bytes; 0: any number
}

// AppendTo appends the record.
func (r *MultiResponse) AppendTo(b []byte) []byte {
	for i := range r.Results {
		b = r.Results[i].AppendTo(b)
	}
	return AppendMultiEnd(b)
}

// AppendTo appends one part of the record.
func (m *MultiResult) AppendTo(b []byte) []byte {
	b = appendMultiHeader(b, m.Op, false, m.Err)
	switch m.Op {
	case OpCreate:
		b = AppendString(b, m.Path)
	case OpCreate2:
		b = AppendStat(AppendString(b, m.Path), &m.Stat)
	case OpSetData:
		b = AppendStat(b, &m.Stat)
	case OpGetData:
		b = AppendStat(AppendBuffer(b, m.Data), &m.Stat)
	case OpGetChildren:
		b = AppendStrings(b, m.Children)
	case OpError:
		b = AppendInt32(b, int32(m.Err))
	}
	return b
}

// AppendMultiChildren begins the part of the record that lists n children. The caller appends their names as strings.
func AppendMultiChildren(b []byte, n int32) []byte {
	return AppendInt32(appendMultiHeader(b, OpGetChildren, false, zk.OK), n)
}

// AppendMultiEnd appends what ends the record.
func AppendMultiEnd(b []byte) []byte { return appendMultiHeader(b, OpError, true, -1) }

// DecodeFrom reads the record.
func (r *MultiResponse) DecodeFrom(d *Decoder) {
	r.Results = nil
	for {
		op, done, code := d.multiHeader()
		if done || d.Err() != nil {
			return
		}
		if r.Max > 0 && len(r.Results) == r.Max {
			d.Fail(fmt.Errorf("more than %d results in the answer to a multi", r.Max))
			return
		}
		m := MultiResult{Op: op, Err: code}
		switch op {
		case OpCreate:
			m.Path = d.String()
		case OpCreate2:
			m.Path, m.Stat = d.String(), d.Stat()
		case OpSetData:
			m.Stat = d.Stat()
		case OpGetData:
			m.Data, m.Stat = d.Buffer(), d.Stat()
		case OpGetChildren:
			m.Children = d.Strings()
		case OpError:
			m.Err = zk.Code(d.Int32())
		case OpDelete, OpCheck:
		default:
			d.Fail(fmt.Errorf("%v in the answer to a multi", op))
			return
		}
		r.Results = append(r.Results, m)
	}
}
