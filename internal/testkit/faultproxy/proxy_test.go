package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A fakeServer answers every request at once and remembers what reached it.
type fakeServer struct {
	mu   sync.Mutex
	seen []string
	wg   sync.WaitGroup
	zxid atomic.Int64
}

func (s *fakeServer) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	s.wg.Go(func() { s.serve(far) })
	return near, nil
}

func (s *fakeServer) serve(nc net.Conn) {
	defer nc.Close()
	var later *wire.ReplyHeader // the answer to a request for /later, which the next one overtakes
	for first := true; ; first = false {
		frame, err := wire.ReadFrame(nc, nil, wire.FrameBytesMax)
		if err != nil {
			s.note("end")
			return
		}
		if first {
			s.note("connect")
			wire.WriteRecord(nc, &wire.ConnectResponse{Timeout: 1000, SessionID: 1, Password: make([]byte, 16)})
			continue
		}
		req := decodeRequest(frame)
		s.note(strings.TrimSpace(req.Op.String() + " " + req.Path))
		h := wire.ReplyHeader{Xid: req.Xid, Zxid: s.zxid.Add(1)}
		if req.Path == "/later" {
			later = &h
			continue
		}
		if req.Watch { // its watch fires before the answer comes
			wire.WriteRecord(nc, &event{wire.ReplyHeader{Xid: wire.XidEvent, Zxid: -1}, wire.WatcherEvent{Type: zk.NodeDeleted, State: wire.StateConnected, Path: req.Path}})
		}
		wire.WriteRecord(nc, &h)
		if later != nil {
			wire.WriteRecord(nc, later)
			later = nil
		}
	}
}

// An event is a frame with a watch event.
type event struct {
	wire.ReplyHeader
	ev wire.WatcherEvent
}

func (e *event) AppendTo(b []byte) []byte   { return e.ev.AppendTo(e.ReplyHeader.AppendTo(b)) }
func (e *event) DecodeFrom(d *wire.Decoder) { e.ReplyHeader.DecodeFrom(d); e.ev.DecodeFrom(d) }

func (s *fakeServer) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, what)
}

func (s *fakeServer) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, ", ")
}

// A fakeClient writes requests and notes the xids of what it hears.
type fakeClient struct {
	t     *testing.T
	nc    net.Conn
	xid   int32
	mu    sync.Mutex
	heard []string
}

func dialThrough(t *testing.T, p *Proxy) *fakeClient {
	t.Helper()
	nc, err := p.Dial(t.Context(), "tcp", "server:2181")
	if err != nil {
		t.Fatal(err)
	}
	return newFakeClient(t, nc)
}

// newFakeClient shakes hands on nc and listens.
func newFakeClient(t *testing.T, nc net.Conn) *fakeClient {
	t.Helper()
	c := &fakeClient{t: t, nc: nc}
	go c.hear()
	b, start := wire.BeginFrame(nil)
	b = (&wire.ConnectRequest{Timeout: 1000, Password: make([]byte, 16)}).AppendTo(b)
	c.write(wire.EndFrame(b, start))
	return c
}

func (c *fakeClient) hear() {
	for first := true; ; first = false {
		frame, err := wire.ReadFrame(c.nc, nil, replyBytesMax)
		c.mu.Lock()
		switch {
		case err != nil:
			c.heard = append(c.heard, "end")
		case first:
			c.heard = append(c.heard, "connected")
		default:
			c.heard = append(c.heard, fmt.Sprint(decodeReply(frame).Xid))
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// log waits until nothing moves any more, and returns what the client heard.
func (c *fakeClient) log() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.heard, ", ")
}

// write sends b. That the connection is over is for hear to find out.
func (c *fakeClient) write(b []byte) {
	c.t.Helper()
	c.nc.SetWriteDeadline(time.Now().Add(time.Minute))
	if _, err := c.nc.Write(b); errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatal(err)
	}
}

// send writes some requests in one write; xids count from 1.
func (c *fakeClient) send(frames ...func(xid int32) []byte) {
	c.t.Helper()
	var b []byte
	for _, f := range frames {
		c.xid++
		b = append(b, f(c.xid)...)
	}
	c.write(b)
}

func request(op wire.Op, r wire.Record) func(int32) []byte {
	return func(xid int32) []byte {
		if op == wire.OpPing {
			xid = wire.XidPing
		}
		b, start := wire.BeginFrame(nil)
		b = (&wire.RequestHeader{Xid: xid, Op: op}).AppendTo(b)
		if r != nil {
			b = r.AppendTo(b)
		}
		return wire.EndFrame(b, start)
	}
}

func create(path string) func(int32) []byte {
	return request(wire.OpCreate2, &wire.CreateRequest{Path: path, ACL: []zk.ACL{}, Mode: zk.EphemeralSequential})
}

func list(path string) func(int32) []byte {
	return request(wire.OpGetChildren, &wire.WatchRequest{Path: path})
}

func get(path string, watch bool) func(int32) []byte {
	return request(wire.OpGetData, &wire.WatchRequest{Path: path, Watch: watch})
}

var ping = request(wire.OpPing, nil)

// bubble runs f in virtual time with a proxy in front of a fake server, and checks at the end that
// nothing of them is left: synctest fails a test whose goroutines do not end.
func bubble(t *testing.T, f func(t *testing.T, p *Proxy, s *fakeServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		p := New(s.dial)
		f(t, p, s)
		p.Close()
		s.wg.Wait()
	})
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
