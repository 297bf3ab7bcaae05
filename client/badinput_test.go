package client_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What a server may answer to a connect request instead of a session, and what Open says to it.
func TestOpenSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(p *peer) // nil: nothing listens
		opt   client.Options
		over  bool   // no other server could help: Open does not wait for its context
		says  string // in the error
	}{
		{name: "nothing listens", says: "connection refused"},
		{name: "silent", serve: silent, says: "zk:2181: no answer in the time given"},
		{name: "silent, attempts end first", opt: client.Options{ConnectTimeout: time.Second},
			serve: silent, says: "zk:2181: no answer within 1s"},
		{name: "hangs up", serve: func(p *peer) { p.hello() }, says: "the server hung up during the handshake"},
		{name: "another protocol", serve: func(p *peer) { p.hello(); p.nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n")) },
			says: `answer is not ZooKeeper's: it begins with "HTTP"`},
		{name: "negative length", serve: func(p *peer) { p.hello(); p.nc.Write([]byte{0xff, 0xff, 0xff, 0xff}) },
			says: `answer is not ZooKeeper's: it begins with "\xff\xff\xff\xff"`},
		{name: "half a frame", serve: func(p *peer) { p.hello(); p.nc.Write([]byte{0, 0, 0, 37, 0, 0}) },
			says: "handshake: unexpected EOF"},
		{name: "half a record", serve: func(p *peer) { p.hello(); p.nc.Write([]byte{0, 0, 0, 2, 0, 0}) },
			says: "answer is not ZooKeeper's: record ends early"},
		{name: "no session", serve: func(p *peer) { p.hello(); p.grant(0, 0) }, over: true, says: "zk:2181 gave no session"},
		{name: "F46: grants too little", opt: client.Options{SessionTimeoutMin: 8 * time.Second}, over: true,
			serve: func(p *peer) { p.hello(); p.grant(1, 4*time.Second) },
			says:  "session not opened: zk:2181 grants a timeout of 4s, at least 8s is required"},
		{name: "F46: grants too much", opt: client.Options{SessionTimeoutMax: 20 * time.Second}, over: true,
			serve: func(p *peer) { p.hello(); p.grant(1, 40*time.Second) },
			says:  "session not opened: zk:2181 grants a timeout of 40s, at most 20s is allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				if tt.serve != nil {
					serveFake(t, n, fakeAddr, tt.serve)
				}
				began := time.Now()
				tt.opt.Dial = n.Dialer("client")
				s, err := client.Open(short(t, 3*time.Second), fakeAddr, tt.opt)
				if s != nil || err == nil {
					t.Fatalf("Open = %v, %v, want an error", s, err)
				}
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %q does not say %q", err, tt.says)
				}
				if took := time.Since(began); took > 3*time.Second || tt.over != (took < 3*time.Second) {
					t.Errorf("Open took %v of 3s; final: %v", took, tt.over)
				}
				var open *client.OpenError
				var over *client.SessionError
				if errors.As(err, &open) == tt.over || errors.As(err, &over) != tt.over {
					t.Errorf("error %T", err)
				}
			})
		})
	}
}

// What a server must not send ends the connection and not the session: the request behind it is answered
// on the next one.
func TestMalformedMessagesEndTheConnection(t *testing.T) {
	header := func(xid int32, code zk.Code, rest ...byte) []byte {
		b, start := wire.BeginFrame(nil)
		return wire.EndFrame(append((&wire.ReplyHeader{Xid: xid, Zxid: 1, Err: code}).AppendTo(b), rest...), start)
	}
	for _, tt := range []struct {
		name string
		send func(xid int32) []byte
		says string
	}{
		{"negative length", func(int32) []byte { return []byte{0x80, 0, 0, 0} }, "frame of -2147483648 bytes"},
		{"empty frame", func(int32) []byte { return []byte{0, 0, 0, 0} }, "message of 0 bytes is too short"},
		{"half a header", func(int32) []byte { return []byte{0, 0, 0, 4, 0, 0, 0, 1} }, "message of 4 bytes is too short"},
		{"wrong xid", func(xid int32) []byte { return header(xid+1, 0) }, "which is not the next one due"},
		{"a ping that was not sent", func(int32) []byte { return header(wire.XidPing, 0) }, "xid -2, which was not sent"},
		{"credentials that were not sent", func(int32) []byte { return header(wire.XidAuth, 0) }, "xid -4, which was not sent"},
		{"watches that were not sent", func(int32) []byte { return header(wire.XidSetWatches, 0) }, "xid -8, which was not sent"},
		{"half an event", func(int32) []byte { return header(wire.XidEvent, 0, 0, 0, 0, 1) }, "watch event: record ends early"},
		{"half an answer", func(xid int32) []byte { return header(xid, 0, 0, 0, 0, 4, 1) }, "answer to get /n: record ends early"},
		{"a length that lies", func(xid int32) []byte { return header(xid, 0, 0x7f, 0xff, 0xff, 0xff) }, "answer to get /n: record ends early"},
		{"nothing", func(int32) []byte { return nil }, "hung up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := serveFake(t, n, fakeAddr, func(p *peer) {
					if !p.open() {
						return
					}
					if p.number > 1 {
						p.serve(nil)
						return
					}
					h, _ := p.next()
					p.nc.Write(tt.send(h.Xid))
				})
				var causes []error
				s := open(t, n, fakeAddr, client.Options{Trace: client.Trace{State: func(st client.State) {
					if st.Phase == client.Disconnected {
						causes = append(causes, st.Cause)
					}
				}}})
				// A read whose answer could not be decoded fails; one whose connection broke is repeated.
				_, _, err := s.Get(t.Context(), "/n")
				if err != nil && !strings.Contains(tt.says, "answer to get") {
					t.Errorf("get: %v", err)
				}
				if _, _, err := s.Get(t.Context(), "/n"); err != nil {
					t.Errorf("get again: %v", err)
				}
				must(t, s.Close(t.Context()))
				synctest.Wait() // for the trace
				if f.connections() != 2 {
					t.Errorf("%d connections, want 2", f.connections())
				}
				if len(causes) != 1 || !strings.Contains(causes[0].Error(), tt.says) || !strings.Contains(causes[0].Error(), fakeAddr) {
					t.Errorf("disconnected because of %q, want %q and the server's name", causes, tt.says)
				}
			})
		})
	}
}

// F29: an answer that is too large fails its request, and nothing else.
func TestF29_ReplyBytesMax(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		const max = 1 << 10
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool {
					switch h.Op {
					case wire.OpGetChildren2:
						p.answer(h.Xid, zk.OK, &wire.ChildrenResponse{Children: []string{strings.Repeat("x", max)}})
					case wire.OpMulti:
						p.answer(h.Xid, zk.OK, &wire.DataResponse{Data: make([]byte, max)})
					case wire.OpGetData: // header, length, data and stat make it exactly as large as may be
						p.answer(h.Xid, zk.OK, &wire.DataResponse{Data: make([]byte, max-16-4-68)})
					default:
						return false
					}
					return true
				})
			}
		})
		s := open(t, n, fakeAddr, client.Options{ReplyBytesMax: max})
		var size *client.SizeError
		_, _, err := s.Children(t.Context(), "/n")
		if !errors.As(err, &size) || size.Bytes <= max || size.Max != max {
			t.Errorf("children: %v, want a *SizeError", err)
		}
		_, err = s.Multi(t.Context(), client.OpCheck("/n", -1))
		if !errors.As(err, &size) || !client.MaybeApplied(err) {
			t.Errorf("multi: %v, want a *SizeError of a write that may be applied", err)
		}
		if _, _, err := s.Get(t.Context(), "/n"); err != nil {
			t.Errorf("get of the largest answer: %v", err)
		}
		if c := s.Stats().Connections; c != 1 {
			t.Errorf("%d connections, want 1: the connection goes on", c)
		}
	})
}

// A watch that was set by a read whose answer was too large is forgotten, here and at the server: WatchGet returns none.
func TestAWatchOfAnAnswerThatIsTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var removed atomic.Int32
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool {
					switch h.Op {
					case wire.OpGetData:
						p.answer(h.Xid, zk.OK, &wire.DataResponse{Data: make([]byte, 1<<10)})
					case wire.OpRemoveWatches:
						removed.Add(1)
						p.answer(h.Xid, zk.OK, nil)
					default:
						return false
					}
					return true
				})
			}
		})
		s := open(t, n, fakeAddr, client.Options{ReplyBytesMax: 1 << 10})
		p := s.Pipeline()
		got, watch := p.WatchGet("/n")
		p.Send(t.Context())
		var size *client.SizeError
		if _, err := got.Wait(t.Context()); !errors.As(err, &size) {
			t.Fatalf("get: %v, want a *SizeError", err)
		}
		synctest.Wait()
		if removed.Load() != 1 {
			t.Errorf("the server was asked %d times to forget the watch, want once", removed.Load())
		}
		watch.Cancel()
		synctest.Wait()
		if removed.Load() != 1 || watch.Fired() {
			t.Error("a watch that was not set can be cancelled or has fired")
		}
	})
}

// An answer with more results than there were operations takes no more memory than it has bytes.
func TestMultiAnswerWithTooManyResults(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool {
					if h.Op == wire.OpMulti {
						p.answer(h.Xid, zk.OK, &wire.MultiResponse{Results: slices.Repeat([]wire.MultiResult{{Op: wire.OpDelete}}, 100_000)})
					}
					return h.Op == wire.OpMulti
				})
			}
		})
		for _, ops := range [][]client.Op{nil, {client.OpDelete("/n", -1)}} {
			s := open(t, n, fakeAddr, client.Options{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := s.Multi(t.Context(), ops...)
			runtime.ReadMemStats(&after)
			if err == nil || !contains(err.Error(), "more than 1 results") || !client.MaybeApplied(err) {
				t.Errorf("multi of %d operations: %v", len(ops), err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 50<<20 {
				t.Errorf("an answer of 900 KB took %d bytes", took)
			}
		}
	})
}

// A request like these may end an Apache ZooKeeper for good: its log cannot be read again.
func TestCreateTTLWithoutATimeToLive(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{})
		for _, tt := range []struct {
			mode zk.Mode
			ttl  time.Duration
		}{{zk.Persistent, -time.Second}, {zk.Persistent, time.Second}, {zk.PersistentTTL, 0}, {zk.PersistentSequentialTTL, -time.Second}} {
			_, err := s.CreateTTL(t.Context(), "/n", nil, tt.mode, nil, tt.ttl)
			wantErr(t, "CreateTTL", err, zk.ErrBadArguments)
		}
		if asked := f.asked(wire.OpCreateTTL); len(asked) > 0 {
			t.Errorf("%d requests were sent", len(asked))
		}
	})
}
