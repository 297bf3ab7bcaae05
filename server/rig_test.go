package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

const testTick = 2 * time.Second

// A rig is a server on a disk and a network in memory. It must be made inside a synctest bubble.
type rig struct {
	*Server
	t    testing.TB
	net  *memnet.Network
	fs   *vfs.Mem
	opts Options

	served chan struct{} // closed when the listener at "zk" is closed
}

// start opens a server and serves "zk". What edit does to the options comes on top of the rig's.
func start(t testing.TB, edit ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, net: memnet.New(), fs: vfs.NewMem(), opts: Options{DataDir: "/data", TickTime: testTick, PreAllocBytes: 64 << 10}}
	for _, e := range edit {
		e(&r.opts)
	}
	r.open()
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	r.opts.fs = r.fs
	var err error
	if r.Server, err = Open(r.opts); err != nil {
		r.t.Fatal(err)
	}
	if r.served != nil {
		<-r.served // if it was closed before it began to serve, the listener is closed only now
	}
	l, err := r.net.Listen("zk")
	if err != nil {
		r.t.Fatal(err)
	}
	srv, served := r.Server, make(chan struct{})
	r.served = served
	go func() {
		defer close(served)
		srv.Serve(l)
	}()
}

// reopen closes the server and opens another on fs.
func (r *rig) reopen(fs *vfs.Mem) {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.fs = fs
	r.open()
}

// A peer is a client that speaks the protocol by hand and has no opinions.
type peer struct {
	t        testing.TB
	nc       net.Conn
	in       *bufio.Reader
	xid      int32
	session  int64
	password []byte
	timeout  time.Duration
	lastZxid int64
}

// dial connects without a handshake.
func (r *rig) dial(label string) *peer {
	r.t.Helper()
	nc, err := r.net.DialAs(r.t.Context(), label, "zk")
	if err != nil {
		r.t.Fatal(err)
	}
	p := newPeer(r.t, nc)
	r.t.Cleanup(func() { nc.Close() })
	return p
}

func newPeer(t testing.TB, nc net.Conn) *peer { return &peer{t: t, nc: nc, in: bufio.NewReader(nc)} }

// connect opens a new session.
func (r *rig) connect(label string) *peer {
	r.t.Helper()
	p := r.dial(label)
	p.handshake(wire.ConnectRequest{Timeout: 10000})
	if p.session == 0 {
		r.t.Fatal("no session granted")
	}
	return p
}

// resume attaches another connection to p's session.
func (r *rig) resume(p *peer) *peer {
	r.t.Helper()
	q := r.dial("resumed")
	q.handshake(wire.ConnectRequest{Timeout: 10000, SessionID: p.session, Password: p.password})
	return q
}

func (p *peer) handshake(q wire.ConnectRequest) wire.ConnectResponse {
	p.t.Helper()
	if err := wire.WriteRecord(p.nc, &q); err != nil {
		p.t.Fatal(err)
	}
	var a wire.ConnectResponse
	if err := wire.Unmarshal(p.frame(), &a); err != nil {
		p.t.Fatal(err)
	}
	p.session, p.password, p.timeout = a.SessionID, a.Password, time.Duration(a.Timeout)*time.Millisecond
	return a
}

func (p *peer) frame() []byte {
	p.t.Helper()
	b, err := wire.ReadFrame(p.in, nil, 1<<30)
	if err != nil {
		p.t.Fatalf("reading from the server: %v", err)
	}
	return b
}

// frameOf encodes a request in a frame.
func frameOf(xid int32, op wire.Op, r wire.Record) []byte {
	b, start := wire.BeginFrame(nil)
	h := wire.RequestHeader{Xid: xid, Op: op}
	b = h.AppendTo(b)
	if r != nil {
		b = r.AppendTo(b)
	}
	return wire.EndFrame(b, start)
}

// send sends a request and returns its xid.
func (p *peer) send(op wire.Op, r wire.Record) int32 {
	p.t.Helper()
	p.xid++
	p.raw(frameOf(p.xid, op, r))
	return p.xid
}

func (p *peer) raw(b []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatalf("writing to the server: %v", err)
	}
}

// An answer is whatever a server sends after the handshake.
type answer struct {
	wire.ReplyHeader
	body  []byte
	event wire.WatcherEvent // if Xid is XidEvent
}

func (p *peer) receive() answer {
	p.t.Helper()
	d := wire.NewDecoder(p.frame())
	var a answer
	a.ReplyHeader.DecodeFrom(d)
	a.body = d.Rest()
	if d.Err() != nil {
		p.t.Fatal(d.Err())
	}
	if a.Xid == wire.XidEvent {
		if err := wire.Unmarshal(a.body, &a.event); err != nil {
			p.t.Fatal(err)
		}
	} else {
		p.lastZxid = a.Zxid
	}
	return a
}

// call sends a request, wants its answer next, and decodes it into out unless that is nil.
func (p *peer) call(op wire.Op, r, out wire.Record) zk.Code {
	p.t.Helper()
	xid := p.send(op, r)
	return p.answerTo(xid, out)
}

func (p *peer) answerTo(xid int32, out wire.Record) zk.Code {
	p.t.Helper()
	a := p.receive()
	if a.Xid != xid {
		p.t.Fatalf("answer to %d (%+v), want the one to %d", a.Xid, a, xid)
	}
	if a.Err == zk.OK && out != nil {
		if err := wire.Unmarshal(a.body, out); err != nil {
			p.t.Fatal(err)
		}
	}
	return a.Err
}

// receiveAnswer is receive for tests that events do not interest.
func (p *peer) receiveAnswer() answer {
	p.t.Helper()
	for {
		if a := p.receive(); a.Xid != wire.XidEvent {
			return a
		}
	}
}

func createReq(path string, mode zk.Mode) *wire.CreateRequest {
	return &wire.CreateRequest{Path: path, Data: []byte("x"), ACL: zk.OpenACL(), Mode: mode}
}

func (p *peer) create(path string, mode zk.Mode) string {
	p.t.Helper()
	var a wire.PathRecord
	if code := p.call(wire.OpCreate, createReq(path, mode), &a); code != zk.OK {
		p.t.Fatalf("create %s: %v", path, code)
	}
	return a.Path
}

func (p *peer) children(path string) []string {
	p.t.Helper()
	var a wire.StringsResponse
	if code := p.call(wire.OpGetChildren, &wire.WatchRequest{Path: path}, &a); code != zk.OK {
		p.t.Fatalf("children of %s: %v", path, code)
	}
	return a.Strings
}

func (p *peer) exists(path string) bool {
	p.t.Helper()
	switch code := p.call(wire.OpExists, &wire.WatchRequest{Path: path}, nil); code {
	case zk.OK:
		return true
	case zk.ErrNoNode:
		return false
	default:
		p.t.Fatalf("exists %s: %v", path, code)
		return false
	}
}

func (p *peer) ping() {
	p.t.Helper()
	p.raw(frameOf(wire.XidPing, wire.OpPing, nil))
	if a := p.receive(); a.Xid != wire.XidPing || a.Err != zk.OK {
		p.t.Fatalf("answer to a ping: %+v", a)
	}
}

// wantClosed wants the end of the stream, and nothing before it.
func (p *peer) wantClosed() {
	p.t.Helper()
	p.nc.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(p.in)
	if len(b) > 0 || err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("read % x, %v; want the connection to be closed without a word", b, err)
	}
}

// wantSilence wants nothing to come for d, and the connection to stay.
func (p *peer) wantSilence(d time.Duration) {
	p.t.Helper()
	p.nc.SetReadDeadline(time.Now().Add(d))
	defer p.nc.SetReadDeadline(time.Time{})
	if b, err := p.in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("read % x, %v; want silence", b, err)
	}
}

func (p *peer) wantEvent(typ zk.EventType, path string) {
	p.t.Helper()
	a := p.receive()
	if a.Xid != wire.XidEvent || a.event.Type != typ || a.event.Path != path || a.event.State != wire.StateConnected {
		p.t.Errorf("received %+v, want the event %v %s", a, typ, path)
	}
}
