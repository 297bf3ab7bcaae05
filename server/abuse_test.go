package server

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What all connections together have outstanding is bounded: beyond it, each gets one request in.
func TestOutstandingRequestsOfAllAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, greedy, n = 20, 3, 1000
		r := start(t, func(o *Options) { o.OutstandingAllMax = limit })
		var peers []*peer
		for range greedy {
			peers = append(peers, r.connect("greedy"))
		}
		modest := r.connect("modest")
		release := r.stall()
		defer release()
		set := frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Data: make([]byte, 100), Version: -1})
		for _, p := range peers {
			go func() {
				for range n {
					p.nc.Write(set)
				}
			}()
		}
		synctest.Wait()
		if got := r.Stats().Outstanding; got < limit || got > limit+greedy {
			t.Errorf("%d requests are outstanding, want %d or at most one more of each of %d connections", got, limit, greedy)
		}
		modest.raw(set)
		modest.raw(set)
		synctest.Wait()
		if got := r.connection(4).out.pending.Load(); got != 1 {
			t.Errorf("of two requests of another client %d wait for the disk, want 1", got)
		}
		peers[0].nc.Close() // with much outstanding, and more unread
		release()
		for _, p := range peers[1:] {
			for range n {
				if a := p.receive(); a.Err != zk.OK {
					t.Fatal(a.Err)
				}
			}
		}
		modest.receive()
		modest.receive()
		synctest.Wait()
		if r, b := r.throttle.requests.Load(), r.throttle.bytes.Load(); r != 0 || b != 0 {
			t.Errorf("when all is answered, %d requests of %d bytes count as outstanding", r, b)
		}
	})
}

// A listener that cannot accept for a while.
type starved struct {
	net.Listener
	errs chan error
}

func (l *starved) Accept() (net.Conn, error) {
	select {
	case err := <-l.errs:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: err}
	default:
		return l.Listener.Accept()
	}
}

// Running out of descriptors ends neither the listener nor what is connected.
func TestAcceptingGoesOnWhenDescriptorsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		l, err := r.net.Listen("starved")
		if err != nil {
			t.Fatal(err)
		}
		s := &starved{Listener: l, errs: make(chan error, 20)}
		for range cap(s.errs) / 2 {
			s.errs <- syscall.EMFILE
			s.errs <- syscall.ECONNABORTED
		}
		p := r.connect("c")
		go r.Serve(s)
		p.ping()
		nc, err := r.net.DialAs(t.Context(), "d", "starved")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		q := newPeer(t, nc)
		q.handshake(wire.ConnectRequest{Timeout: 10000})
		if q.session == 0 {
			t.Error("no session")
		}
	})
}

// A flood of connections beyond the limit costs the log one line, and other clients nothing.
func TestAFloodOfConnectionsIsLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		r := start(t, func(o *Options) {
			o.ConnectionsPerAddressMax = 5
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		other := r.connect("other")
		for range 1000 {
			if nc, err := r.net.DialAs(t.Context(), "flood", "zk"); err == nil {
				defer nc.Close()
			}
		}
		other.ping()
		synctest.Wait()
		if n := r.Stats().Connections; n != 6 {
			t.Errorf("%d connections, want 6", n)
		}
		if n := strings.Count(log.String(), "too many connections"); n != 1 {
			t.Errorf("%d lines about it, want 1", n)
		}
		time.Sleep(r.Server.opts.HandshakeTimeout / 2)
		other.ping()
		time.Sleep(r.Server.opts.HandshakeTimeout/2 + 2*lingerTimeout)
		other.ping()
		if n := r.Stats().Connections; n != 1 {
			t.Errorf("%d connections are left, want 1", n)
		}
	})
}

// A client that is refused and comes back at once, again and again, costs the log one line.
func TestRepeatedRefusalsAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		r := start(t, func(o *Options) {
			o.ConnectionsPerAddressMax = -1
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		for range 100 {
			ahead := r.dial("ahead")
			wire.WriteRecord(ahead.nc, &wire.ConnectRequest{Timeout: 10000, LastZxid: 1 << 40})
			ahead.wantClosed()
			r.connect("stranger").call(wire.OpAuth, &wire.AuthRequest{Scheme: "bogus"}, nil)
		}
		for _, what := range []string{"client has seen more", "authentication refused"} {
			if n := strings.Count(log.String(), what); n != 1 {
				t.Errorf("%d lines with %q, want 1", n, what)
			}
		}
	})
}

// abuse is what peers do that are not clients, or not good ones. Each does its worst to a connection.
var abuse = map[string]func(rnd *rand.Rand, nc net.Conn){
	"silence":      func(*rand.Rand, net.Conn) {},
	"half a head":  func(_ *rand.Rand, nc net.Conn) { nc.Write([]byte{0, 0}) },
	"random bytes": func(rnd *rand.Rand, nc net.Conn) { nc.Write(randomBytes(rnd, 1+rnd.IntN(4096))) },
	"a length and no more": func(rnd *rand.Rand, nc net.Conn) {
		nc.Write(binary.BigEndian.AppendUint32(nil, rnd.Uint32N(wire.FrameBytesMax)))
	},
	"any length": func(rnd *rand.Rand, nc net.Conn) { nc.Write(binary.BigEndian.AppendUint32(nil, rnd.Uint32())) },
	"a greeting, then half a request": func(_ *rand.Rand, nc net.Conn) {
		wire.WriteRecord(nc, &wire.ConnectRequest{Timeout: 1})
		f := frameOf(1, wire.OpCreate, createReq("/x", zk.Ephemeral))
		nc.Write(f[:len(f)-3])
	},
	"a greeting, then random requests": func(rnd *rand.Rand, nc net.Conn) {
		wire.WriteRecord(nc, &wire.ConnectRequest{Timeout: 1})
		for range 20 {
			b, start := wire.BeginFrame(nil)
			h := wire.RequestHeader{Xid: rnd.Int32(), Op: wire.Op(rnd.Int32N(110) - 5)}
			nc.Write(wire.EndFrame(append(h.AppendTo(b), randomBytes(rnd, rnd.IntN(200))...), start))
		}
	},
	"reads whose answers are not taken": func(_ *rand.Rand, nc net.Conn) {
		wire.WriteRecord(nc, &wire.ConnectRequest{Timeout: 1})
		get := frameOf(1, wire.OpGetData, &wire.WatchRequest{Path: "/big"})
		nc.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		for range 2000 {
			if _, err := nc.Write(get); err != nil {
				return
			}
		}
	},
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// Over real sockets: whatever strangers do, they are gone soon, others are served all the time, and
// goroutines and memory return to what they were.
func TestAbuseLeavesNothingBehind(t *testing.T) {
	const each = 25
	seed := rand.Uint64()
	s, err := Open(Options{
		DataDir: t.TempDir(), NoSync: true, PreAllocBytes: 64 << 10, ConnectionsPerAddressMax: -1,
		TickTime: 50 * time.Millisecond, HandshakeTimeout: 3 * time.Second, // the good client's, too
		MaxSessionTimeout: time.Minute, OutputBytesMax: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	dial := func() net.Conn {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return nil
		}
		return nc
	}
	nc := dial()
	defer nc.Close()
	good := newPeer(t, nc)
	good.handshake(wire.ConnectRequest{Timeout: 60000})
	good.create("/big", zk.Persistent)
	good.call(wire.OpSetData, &wire.SetDataRequest{Path: "/big", Data: make([]byte, 100<<10), Version: -1}, nil)

	round := func() {
		var wg sync.WaitGroup
		for name, do := range abuse {
			for i := range each {
				wg.Go(func() {
					nc := dial()
					if nc == nil {
						return
					}
					defer nc.Close()
					do(rand.New(rand.NewPCG(seed, uint64(i))), nc)
					nc.SetReadDeadline(time.Now().Add(30 * time.Second))
					if name == "reads whose answers are not taken" {
						return
					}
					if _, err := io.Copy(io.Discard, nc); errors.Is(err, syscall.ETIMEDOUT) || isTimeout(err) {
						t.Errorf("seed %d: %s: not hung up on", seed, name)
					}
				})
			}
		}
		for range 50 {
			good.ping()
			good.exists("/big")
		}
		wg.Wait()
	}
	round()
	goroutines, memory := settled(t, s, 1<<30, 1<<40)
	round()
	settled(t, s, goroutines, memory+8<<20)
	good.ping()
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// settled waits until one connection is left and no more goroutines and memory are in use than
// allowed, and returns how much is.
func settled(t *testing.T, s *Server, goroutines int, memory uint64) (int, uint64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		n, left := runtime.NumGoroutine(), s.Stats().Connections
		if left == 1 && n <= goroutines && m.HeapAlloc <= memory {
			return n, m.HeapAlloc
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, %d goroutines and %d bytes are left; want 1, %d and %d", left, n, m.HeapAlloc, goroutines, memory)
		}
	}
}

// A request that comes too late to be carried out does not count as outstanding for ever.
func TestAnEndedConnectionHasNothingOutstanding(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	all := &throttle{requestsMax: 1, bytesMax: 1}
	o := newOutput(near, 1<<10, all, newBudget(1<<20))
	o.finish()
	if o.count(100) {
		t.Error("an ended connection counts a request")
	}
	if all.full() {
		t.Error("a request that will get no answer counts as outstanding")
	}
}
