package client_test

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A fake is a server that does what the test says, and writes down what it was asked. A real server would
// refuse to misbehave.
type fake struct {
	t   *testing.T
	net *memnet.Network

	mu    sync.Mutex
	peers int // connections accepted
	heard []heard
}

// A heard is a request as the fake received it.
type heard struct {
	Peer int // number of the connection, from 1
	Xid  int32
	Op   wire.Op
	At   time.Time
	Body []byte
}

// A peer is one connection of a fake.
type peer struct {
	fake   *fake
	number int
	nc     net.Conn
	zxid   int64 // put into answers
}

// serveFake runs a fake at addr. Each connection is handled by handle on a goroutine of its own and hung
// up when handle returns.
func serveFake(t *testing.T, n *memnet.Network, addr string, handle func(p *peer)) *fake {
	t.Helper()
	l, err := n.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	return serveFakeAt(t, &fake{t: t, net: n}, l, handle)
}

// serveFakeAt is serveFake for a listener.
func serveFakeAt(t *testing.T, f *fake, l net.Listener, handle func(p *peer)) *fake {
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[nc] = true
			mu.Unlock()
			f.mu.Lock()
			f.peers++
			p := &peer{fake: f, number: f.peers, nc: nc, zxid: 1}
			f.mu.Unlock()
			wg.Go(func() {
				defer nc.Close()
				handle(p)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for nc := range open {
			nc.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return f
}

// connections returns how many connections were accepted.
func (f *fake) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peers
}

// asked returns the requests of these types, or all, in the order of their arrival.
func (f *fake) asked(ops ...wire.Op) (out []heard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.heard {
		for _, op := range ops {
			if h.Op == op {
				out = append(out, h)
			}
		}
		if len(ops) == 0 {
			out = append(out, h)
		}
	}
	return out
}

const fakeSession = 0x1234

// hello reads the connect request.
func (p *peer) hello() (req wire.ConnectRequest, ok bool) {
	frame, err := wire.ReadFrame(p.nc, nil, wire.FrameBytesMax)
	if err != nil {
		return req, false
	}
	if err := wire.Unmarshal(frame, &req); err != nil {
		p.fake.t.Errorf("connect request: %v", err)
	}
	return req, true
}

// grant answers a connect request.
func (p *peer) grant(id int64, timeout time.Duration) {
	wire.WriteRecord(p.nc, &wire.ConnectResponse{
		SessionID: id, Timeout: int32(timeout.Milliseconds()), Password: make([]byte, 16), HasReadOnly: true,
	})
}

// open shakes hands as a server does, granting what was asked for.
func (p *peer) open() bool {
	req, ok := p.hello()
	if ok {
		p.grant(fakeSession, time.Duration(req.Timeout)*time.Millisecond)
	}
	return ok
}

// next returns the next request; ok is false at the end of the connection.
func (p *peer) next() (h heard, ok bool) {
	frame, err := wire.ReadFrame(p.nc, nil, wire.FrameBytesMax)
	if err != nil {
		return h, false
	}
	d := wire.NewDecoder(frame)
	var head wire.RequestHeader
	head.DecodeFrom(d)
	h = heard{Peer: p.number, Xid: head.Xid, Op: head.Op, At: time.Now(), Body: d.Rest()}
	p.fake.mu.Lock()
	p.fake.heard = append(p.fake.heard, h)
	p.fake.mu.Unlock()
	return h, true
}

// answer answers a request; record may be nil.
func (p *peer) answer(xid int32, code zk.Code, record wire.Record) {
	b, start := wire.BeginFrame(nil)
	b = (&wire.ReplyHeader{Xid: xid, Zxid: p.zxid, Err: code}).AppendTo(b)
	if record != nil {
		b = record.AppendTo(b)
	}
	p.nc.Write(wire.EndFrame(b, start))
}

// event sends a watch event.
func (p *peer) event(typ zk.EventType, path string) {
	p.answer(wire.XidEvent, zk.OK, &wire.WatcherEvent{Type: typ, State: wire.StateConnected, Path: path})
}

// serve answers every request as a server with nothing in it would, until the connection ends. own comes
// first and reports whether it has dealt with the request.
func (p *peer) serve(own func(heard) bool) {
	for {
		h, ok := p.next()
		if !ok {
			return
		}
		if own != nil && own(h) {
			continue
		}
		switch h.Op {
		case wire.OpGetData:
			p.answer(h.Xid, zk.OK, &wire.DataResponse{Data: []byte("data")})
		case wire.OpExists, wire.OpSetData, wire.OpSetACL:
			p.answer(h.Xid, zk.OK, &wire.StatResponse{})
		case wire.OpGetChildren2:
			p.answer(h.Xid, zk.OK, &wire.ChildrenResponse{})
		case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
			var req wire.CreateRequest
			wire.Unmarshal(h.Body, &req)
			p.answer(h.Xid, zk.OK, &wire.CreateResponse{Path: req.Path})
		case wire.OpSync:
			p.answer(h.Xid, zk.OK, &wire.PathRecord{Path: "/"})
		case wire.OpMulti:
			p.answer(h.Xid, zk.OK, &wire.MultiResponse{Results: []wire.MultiResult{{Op: wire.OpCheck}}})
		case wire.OpCloseSession:
			p.answer(h.Xid, zk.OK, nil)
			return
		default:
			p.answer(h.Xid, zk.OK, nil)
		}
	}
}

// well is the handler of a fake that behaves.
func well(p *peer) {
	if p.open() {
		p.serve(nil)
	}
}

// silent is the handler of a fake that takes everything and answers nothing.
func silent(p *peer) {
	for ok := true; ok; {
		_, ok = p.next()
	}
}

// bubble runs f in virtual time with a network of its own. When it returns, no goroutine may be left.
func bubble(t *testing.T, f func(t *testing.T, n *memnet.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, memnet.New()) })
}

const fakeAddr = "zk:2181"

// open opens a session that is closed with the test.
func open(t *testing.T, n *memnet.Network, servers string, o client.Options) *client.Session {
	t.Helper()
	if o.Dial == nil {
		o.Dial = n.Dialer("client")
	}
	s, err := client.Open(t.Context(), servers, clock.With(o, &clock.Clock{})) // time in a bubble is package time's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(short(t, time.Second)) })
	return s
}
