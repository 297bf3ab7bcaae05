package store

import (
	"encoding/binary"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// reach returns up to where the tail is the first record, by the fields of its payload. They have to agree with the length in
// front of it: a record whose length is wrong reaches no further than its fields do, and the records behind it count.
//
// Where a field itself is wrong, or was left out of the write, the rest of the record is not part of it.
func (t tail) reach() int {
	if len(t.bytes) < recordHeaderBytes+txnHeaderBytes {
		return 0
	}
	length := int64(int32(binary.BigEndian.Uint32(t.bytes[8:])))
	payload := t.bytes[recordHeaderBytes:]
	if length < txnHeaderBytes || length > payloadBytesMax {
		return 0
	}
	if zxid := payloadZxid(payload); zxid <= t.last || t.last > 0 && !follows(t.last, zxid) {
		return 0
	}
	f := fields{b: t.bytes, at: recordHeaderBytes + txnHeaderBytes, end: recordHeaderBytes + int(length)}
	f.change(wire.Op(binary.BigEndian.Uint32(payload[txnHeaderBytes-4:])))
	return f.at
}

// fields walks over the fields of a payload, which may end before they do. Its methods report false, and stay where they are or
// behind the length of a field, if a field does not fit.
type fields struct {
	b       []byte
	at, end int
}

// change walks over a change as package txn encodes it. Of some types no client chooses the fields: they are left out, and the
// list of a closed session, which may be missing, with them.
func (f *fields) change(typ wire.Op) bool {
	switch typ {
	case wire.OpCreate, wire.OpCreate2:
		return f.buffers(2) && f.acl() && f.skip(1) // releases before 3.4 end here
	case wire.OpCreateContainer:
		return f.buffers(2) && f.acl() && f.skip(4)
	case wire.OpCreateTTL:
		return f.buffers(2) && f.acl() && f.skip(4+8)
	case wire.OpSetData, wire.OpReconfig:
		return f.buffers(2) && f.skip(4)
	case wire.OpSetACL:
		return f.buffer() && f.acl() && f.skip(4)
	case wire.OpDelete, wire.OpDeleteContainer:
		return f.buffer()
	case wire.OpCheck:
		return f.buffer() && f.skip(4)
	case wire.OpError:
		return f.skip(4)
	case wire.OpMulti:
		return f.vector(f.sub)
	}
	return false
}

// sub walks over a part of a multi.
func (f *fields) sub() bool {
	typ, _ := f.int32()
	n, ok := f.int32()
	if !ok || typ == int(wire.OpMulti) || n > f.end-f.at {
		return false
	}
	part := fields{b: f.b, at: f.at, end: f.at + n}
	if !part.change(wire.Op(typ)) {
		f.at = part.at
		return false
	}
	return f.skip(n)
}

func (f *fields) acl() bool {
	return f.vector(func() bool { return f.skip(4) && f.buffers(2) })
}

func (f *fields) vector(element func() bool) bool {
	n, ok := f.int32()
	for ; ok && n > 0; n-- {
		ok = element()
	}
	return ok
}

// buffers walks over n buffers.
func (f *fields) buffers(n int) bool {
	for range n {
		if !f.buffer() {
			return false
		}
	}
	return true
}

// buffer walks over a buffer or a string. The length of one that is null is −1.
func (f *fields) buffer() bool {
	n, ok := f.int32()
	return ok && f.skip(max(n, 0))
}

func (f *fields) int32() (n int, ok bool) {
	at := f.at
	if at+4 > len(f.b) || !f.skip(4) {
		return 0, false
	}
	return int(int32(binary.BigEndian.Uint32(f.b[at:]))), true
}

func (f *fields) skip(n int) bool {
	if n < 0 || n > f.end-f.at {
		return false
	}
	f.at += n
	return true
}
