package wire

import "io"

// A ConnectRequest is the first frame that a client sends. It has no header.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxid        int64  // the newest zxid the client has seen; a server that is behind it hangs up
	Timeout         int32  // asked for, in milliseconds
	SessionID       int64  // 0: a new session
	Password        []byte // 16 bytes
	ReadOnly        bool   // a server without quorum will do
	HasReadOnly     bool   // clients up to 3.3 leave the last byte out
}

// AppendTo appends the record.
func (r *ConnectRequest) AppendTo(b []byte) []byte {
	b = AppendInt32(b, r.ProtocolVersion)
	b = AppendInt64(b, r.LastZxid)
	b = AppendInt32(b, r.Timeout)
	b = AppendInt64(b, r.SessionID)
	b = AppendBuffer(b, r.Password)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// DecodeFrom reads the record.
func (r *ConnectRequest) DecodeFrom(d *Decoder) {
	r.ProtocolVersion = d.Int32()
	r.LastZxid = d.Int64()
	r.Timeout = d.Int32()
	r.SessionID = d.Int64()
	r.Password = d.Buffer()
	r.HasReadOnly = len(d.Rest()) > 0
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// A ConnectResponse is the first frame that a server sends. It has no header. A Timeout of 0 or
// less says that the session does not exist (any more).
type ConnectResponse struct {
	ProtocolVersion int32
	Timeout         int32 // granted, in milliseconds
	SessionID       int64
	Password        []byte // 16 bytes
	ReadOnly        bool   // the server has no quorum
	HasReadOnly     bool   // sent only if the request had it
}

// AppendTo appends the record.
func (r *ConnectResponse) AppendTo(b []byte) []byte {
	b = AppendInt32(b, r.ProtocolVersion)
	b = AppendInt32(b, r.Timeout)
	b = AppendInt64(b, r.SessionID)
	b = AppendBuffer(b, r.Password)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// DecodeFrom reads the record.
func (r *ConnectResponse) DecodeFrom(d *Decoder) {
	r.ProtocolVersion = d.Int32()
	r.Timeout = d.Int32()
	r.SessionID = d.Int64()
	r.Password = d.Buffer()
	r.HasReadOnly = len(d.Rest()) > 0
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// A Record can be encoded and decoded.
type Record interface {
	AppendTo(b []byte) []byte
	DecodeFrom(d *Decoder)
}

// Unmarshal decodes b into r. Bytes behind the record are ignored, as ZooKeeper ignores them.
func Unmarshal(b []byte, r Record) error {
	d := NewDecoder(b)
	r.DecodeFrom(d)
	return d.Err()
}

// WriteRecord writes r in a frame of its own: for handshakes and tests, where speed is no matter.
func WriteRecord(w io.Writer, r Record) error {
	b, start := BeginFrame(nil)
	_, err := w.Write(EndFrame(r.AppendTo(b), start))
	return err
}
