package server

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A wheel is a connection without a kernel: it asks the same few frames again and again, with so many
// turns in flight, and only counts what it is answered.
type wheel struct {
	hello  []byte // what is left of it
	turn   []byte // whole frames
	frames int    // in a turn
	ahead  int    // turns

	mu     sync.Mutex
	moved  sync.Cond
	left   int // turns not yet asked
	sent   int // bytes of a turn
	due    int // answers
	closed bool
	served chan struct{} // gets one when all turns are answered
}

func newWheel(ahead int, frames ...[]byte) *wheel {
	hello, start := wire.BeginFrame(nil)
	q := wire.ConnectRequest{Timeout: 40000}
	w := &wheel{hello: wire.EndFrame(q.AppendTo(hello), start), frames: len(frames), ahead: ahead, served: make(chan struct{}, 1)}
	for _, f := range frames {
		w.turn = append(w.turn, f...)
	}
	w.due = 1 // of the hello
	w.moved.L = &w.mu
	return w
}

func (w *wheel) Read(b []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = copy(b, w.hello)
	if n > 0 {
		w.hello = w.hello[n:]
		return n, nil
	}
	for !w.closed && !w.mayAsk() {
		w.moved.Wait()
	}
	if w.closed {
		return 0, net.ErrClosed
	}
	for n < len(b) && w.mayAsk() {
		k := copy(b[n:], w.turn[w.sent:])
		n += k
		w.sent += k
		if w.sent == len(w.turn) {
			w.sent = 0
			w.left--
			w.due += w.frames
		}
	}
	return n, nil
}

func (w *wheel) mayAsk() bool { return w.left > 0 && w.due < w.ahead*w.frames }

func (w *wheel) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := b; len(rest) > 0; w.due-- {
		rest = rest[4+binary.BigEndian.Uint32(rest):]
	}
	if w.left == 0 && w.due == 0 {
		select {
		case w.served <- struct{}{}:
		default: // it was the hello
		}
	}
	w.moved.Broadcast()
	return len(b), nil
}

// serve asks so many turns and returns when they are answered.
func (w *wheel) serve(turns int) {
	w.mu.Lock()
	select {
	case <-w.served:
	default:
	}
	w.left = turns
	w.moved.Broadcast()
	w.mu.Unlock()
	<-w.served
}

func (w *wheel) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.moved.Broadcast()
	return nil
}

func (w *wheel) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (w *wheel) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (w *wheel) SetDeadline(time.Time) error      { return nil }
func (w *wheel) SetReadDeadline(time.Time) error  { return nil }
func (w *wheel) SetWriteDeadline(time.Time) error { return nil }

// benchmarkAlone measures what requests cost the server itself, without the kernel's part of a connection: their
// frames come from memory, and the answers are not read. What is logged is written and not synced.
func benchmarkAlone(b *testing.B, frames ...[]byte) {
	s, err := Open(Options{DataDir: b.TempDir(), NoSync: true, SnapCount: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	setup := newWheel(1, frameOf(1, wire.OpCreate, createReq("/n", zk.Persistent)), setFrame)
	s.accept(setup)
	setup.serve(1)
	const ahead = 32
	w := newWheel(ahead, frames...)
	s.accept(w)
	w.serve(1)
	b.ReportAllocs()
	b.ResetTimer()
	w.serve(b.N)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(frames)), "ns/request")
}

func BenchmarkGetAlone(b *testing.B) {
	benchmarkAlone(b, frameOf(1, wire.OpGetData, &wire.WatchRequest{Path: "/n"}))
}

func BenchmarkSetAlone(b *testing.B) { benchmarkAlone(b, setFrame) }

// BenchmarkPairAlone creates and deletes an ephemeral znode.
func BenchmarkPairAlone(b *testing.B) {
	create := createReq("/n/a", zk.Ephemeral)
	create.Data = make([]byte, dataBytes)
	benchmarkAlone(b, frameOf(1, wire.OpCreate, create), frameOf(2, wire.OpDelete, &wire.VersionRequest{Path: "/n/a", Version: -1}))
}
