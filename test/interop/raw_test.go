package interop

import (
	"net"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A raw is a session's connection, one request at a time: for asking a server what it does, without
// a client in between that could know better.
type raw struct {
	t      *testing.T
	nc     net.Conn
	xid    int32
	Opened wire.ConnectResponse
}

// rawTimeout bounds an exchange that is expected to be answered.
const rawTimeout = 10 * time.Second

// watcherTimeout is the session timeout of a raw that looks on now and then, and never pings.
const watcherTimeout = 10 * time.Minute

// connect opens a session, or resumes the one of from.
func connect(t *testing.T, addr string, timeout time.Duration, from *raw) *raw {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, rawTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(rawTimeout))
	req := wire.ConnectRequest{Timeout: int32(timeout.Milliseconds()), Password: make([]byte, 16), HasReadOnly: true}
	if from != nil {
		req.SessionID, req.Password = from.Opened.SessionID, from.Opened.Password
	}
	if err := wire.WriteRecord(nc, &req); err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, nc: nc}
	defer nc.SetDeadline(time.Time{})
	frame, err := wire.ReadFrame(nc, nil, wire.FrameBytesMax)
	if err != nil {
		t.Fatalf("connect to %s: %v", addr, err)
	}
	if err := wire.Unmarshal(frame, &r.Opened); err != nil || r.Opened.Timeout <= 0 {
		t.Fatalf("connect to %s: %+v, %v", addr, r.Opened, err)
	}
	return r
}

// send sends one request; record may be nil.
func (r *raw) send(op wire.Op, record wire.Record) {
	r.t.Helper()
	r.xid++
	h := wire.RequestHeader{Xid: r.xid, Op: op}
	if op == wire.OpPing {
		h.Xid = wire.XidPing
	}
	b, start := wire.BeginFrame(nil)
	b = h.AppendTo(b)
	if record != nil {
		b = record.AppendTo(b)
	}
	r.nc.SetWriteDeadline(time.Now().Add(rawTimeout))
	if _, err := r.nc.Write(wire.EndFrame(b, start)); err != nil {
		r.t.Fatalf("send %v: %v", op, err)
	}
}

// receive waits for the next answer; events are passed over.
func (r *raw) receive(limit time.Duration) (h wire.ReplyHeader, body *wire.Decoder, err error) {
	r.nc.SetReadDeadline(time.Now().Add(limit))
	for {
		frame, err := wire.ReadFrame(r.nc, nil, 16<<20)
		if err != nil {
			return h, nil, err
		}
		d := wire.NewDecoder(frame)
		h.DecodeFrom(d)
		if h.Xid != wire.XidEvent {
			return h, d, d.Err()
		}
	}
}

// call sends a request that must succeed and decodes the answer, which may be nil.
func (r *raw) call(op wire.Op, record, answer wire.Record) wire.ReplyHeader {
	r.t.Helper()
	r.send(op, record)
	h, body, err := r.receive(rawTimeout)
	if err != nil || h.Err != zk.OK {
		r.t.Fatalf("%v: %v, %v", op, h.Err, err)
	}
	if answer != nil {
		answer.DecodeFrom(body)
		if body.Err() != nil {
			r.t.Fatalf("answer to %v: %v", op, body.Err())
		}
	}
	return h
}

// create creates a znode and returns its path.
func (r *raw) create(path string, mode zk.Mode) wire.CreateResponse {
	r.t.Helper()
	var resp wire.CreateResponse
	r.call(wire.OpCreate2, createRequest(path, mode), &resp)
	return resp
}

func createRequest(path string, mode zk.Mode) *wire.CreateRequest {
	return &wire.CreateRequest{Path: path, Mode: mode,
		ACL: zk.OpenACL()}
}

// children lists the children of path.
func (r *raw) children(path string) []string {
	r.t.Helper()
	var resp wire.ChildrenResponse
	r.call(wire.OpGetChildren2, &wire.WatchRequest{Path: path}, &resp)
	return resp.Children
}
