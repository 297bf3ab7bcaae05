package wire

import "github.com/lockkeeper/lockkeeper/zk"

// A RequestHeader stands in front of every request but the first.
type RequestHeader struct {
	Xid int32
	Op  Op
}

// AppendTo appends the record.
func (h *RequestHeader) AppendTo(b []byte) []byte {
	return AppendInt32(AppendInt32(b, h.Xid), int32(h.Op))
}

// DecodeFrom reads the record.
func (h *RequestHeader) DecodeFrom(d *Decoder) { h.Xid, h.Op = d.Int32(), Op(d.Int32()) }

// A ReplyHeader stands in front of every answer but the first, and of every event. A response
// record follows only if Err is OK.
type ReplyHeader struct {
	Xid  int32
	Zxid int64 // the last transaction that the server had processed
	Err  zk.Code
}

// AppendTo appends the record.
func (h *ReplyHeader) AppendTo(b []byte) []byte {
	return AppendInt32(AppendInt64(AppendInt32(b, h.Xid), h.Zxid), int32(h.Err))
}

// DecodeFrom reads the record.
func (h *ReplyHeader) DecodeFrom(d *Decoder) {
	h.Xid, h.Zxid, h.Err = d.Int32(), d.Int64(), zk.Code(d.Int32())
}

// A WatcherEvent follows a ReplyHeader with XidEvent.
type WatcherEvent struct {
	Type  zk.EventType
	State int32 // always StateConnected when it comes from a server
	Path  string
}

// StateConnected is the only session state that servers put into events.
const StateConnected = 3

// AppendTo appends the record.
func (e *WatcherEvent) AppendTo(b []byte) []byte {
	return AppendString(AppendInt32(AppendInt32(b, int32(e.Type)), e.State), e.Path)
}

// DecodeFrom reads the record.
func (e *WatcherEvent) DecodeFrom(d *Decoder) {
	e.Type, e.State, e.Path = zk.EventType(d.Int32()), d.Int32(), d.String()
}
