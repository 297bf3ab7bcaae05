package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// F20: a server that answers a resume with another session ends ours, for good, and with it what waited:
// nothing of it runs under the other.
func TestF20_AnotherSessionIsExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			req, _ := p.hello()
			if p.number > 1 && req.SessionID != fakeSession {
				p.fake.t.Errorf("resumed with 0x%x, want 0x%x", req.SessionID, fakeSession)
			}
			p.grant(fakeSession+int64(p.number)-1, 10*time.Second)
			p.serve(nil)
		})
		s := open(t, n, fakeAddr, client.Options{})
		_, _, w, err := s.WatchGet(t.Context(), "/n")
		must(t, err)
		watch, err := s.AddWatch(t.Context(), "/n", true)
		must(t, err)
		n.Link("client", "").Refuse()
		n.Link("client", "").Cut()
		await(t, s, client.Disconnected)
		p := s.Pipeline()
		created := p.Create("/n", nil, zk.Ephemeral, nil)
		p.Send(t.Context())
		n.Link("client", "").Heal()

		_, err = created.Wait(t.Context())
		wantErr(t, "create", err, zk.ErrSessionExpired)
		if client.MaybeApplied(err) {
			t.Errorf("MaybeApplied(%v), but it was never sent", err)
		}
		<-s.Done()
		fired(t, w)
		_, _, err = w.Event()
		wantErr(t, "watch", err, zk.ErrSessionExpired)
		for err = nil; err == nil; {
			_, err = watch.Next(t.Context())
		}
		wantErr(t, "watch", err, zk.ErrSessionExpired)
		if st, _ := s.State(); st.Phase != client.Expired || !errors.Is(st.Cause, zk.ErrSessionExpired) {
			t.Errorf("state %v, %v, want expired", st.Phase, st.Cause)
		}
		_, _, err = s.Get(t.Context(), "/n")
		wantErr(t, "get afterwards", err, zk.ErrSessionExpired)
		must(t, s.Close(t.Context()))
		wantErr(t, "Err after Close", s.Err(), zk.ErrSessionExpired)
		<-time.After(time.Minute)
		if len(f.asked(wire.OpCreate2)) != 0 || f.connections() != 2 {
			t.Errorf("%d connections, asked %v: nothing may reach the other session", f.connections(), f.asked())
		}
	})
}

// F20: all servers away for five timeouts and back with what they knew: one loss at most, and it is told
// by the server, not guessed.
func TestF20_LongOutage(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		srv := start(t, n, fakeAddr)
		var mu sync.Mutex
		var phases []client.Phase
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 4 * time.Second,
			Trace: client.Trace{State: func(st client.State) {
				mu.Lock()
				defer mu.Unlock()
				phases = append(phases, st.Phase)
			}}})
		srv.down()
		await(t, s, client.Disconnected)
		<-time.After(20 * time.Second)
		if err := s.Err(); err != nil {
			t.Errorf("while the servers were down: %v", err)
		}
		srv.up() // with a full timeout for every session it knew
		await(t, s, client.Connected)
		n.Link("client", "").Refuse()
		n.Link("client", "").Cut()
		<-time.After(10 * time.Second) // now the session expires
		n.Link("client", "").Heal()
		<-s.Done()
		wantErr(t, "Err", s.Err(), zk.ErrSessionExpired)
		<-time.After(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		want := []client.Phase{client.Connected, client.Disconnected, client.Connected, client.Disconnected, client.Expired}
		if len(phases) != len(want) {
			t.Fatalf("phases %v, want %v", phases, want)
		}
		for i := range want {
			if phases[i] != want[i] {
				t.Fatalf("phases %v, want %v", phases, want)
			}
		}
	})
}

// F44: a server that is behind what the session has seen hangs up, and the next one is tried.
func TestF44_ServerBehindIsPassedOver(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		handler := func(zxid int64) func(p *peer) {
			return func(p *peer) {
				req, ok := p.hello()
				if !ok || req.LastZxid > zxid {
					return
				}
				p.zxid = zxid
				p.grant(fakeSession, 10*time.Second)
				p.serve(nil)
			}
		}
		serveFake(t, n, "ahead:2181", handler(7))
		behind := serveFake(t, n, "behind:2181", handler(3))
		s := open(t, n, "ahead:2181,behind:2181", client.Options{})
		if st, _ := s.State(); st.Server != "ahead:2181" {
			cut(t, n, s)
		}
		_, _, err := s.Get(t.Context(), "/n") // its answer says 7
		must(t, err)
		for range 20 {
			if st := cut(t, n, s); st.Server != "ahead:2181" {
				t.Fatalf("connected to %v, which is behind", st.Server)
			}
		}
		if behind.connections() == 0 {
			t.Error("the server that is behind was never tried")
		}
	})
}

// F44: the zxid of a watch event is not that of an answer: before 3.9.0 it is -1, and a server that sends
// catch-up events may be behind them.
func TestF44_EventsDoNotCountAsSeen(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		seen := make(chan int64, 2)
		serveFake(t, n, fakeAddr, func(p *peer) {
			req, _ := p.hello()
			seen <- req.LastZxid
			p.grant(fakeSession, 10*time.Second)
			p.serve(func(h heard) bool {
				p.zxid = 5
				if h.Op == wire.OpGetData {
					p.answer(h.Xid, zk.OK, &wire.DataResponse{})
					p.zxid = 99
					p.event(zk.NodeDataChanged, "/n")
				}
				return h.Op == wire.OpGetData
			})
		})
		s := open(t, n, fakeAddr, client.Options{})
		_, _, w, err := s.WatchGet(t.Context(), "/n")
		must(t, err)
		fired(t, w)
		cut(t, n, s)
		if first, second := <-seen, <-seen; first != 0 || second != 5 {
			t.Errorf("last zxids %d and %d, want 0 and 5", first, second)
		}
	})
}

// F44: servers that have lost their data refuse for ever; the session ends with an error that says so,
// within a bounded time and at a bounded rate.
func TestF44_Wiped(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		srv := start(t, n, fakeAddr)
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
		_, err := s.Create(t.Context(), "/n", nil, zk.Ephemeral, nil)
		must(t, err)
		srv.wipe()
		srv.up()
		began := time.Now()
		_, _, err = s.Get(short(t, time.Minute), "/n")
		wantErr(t, "get", err, zk.ErrSessionExpired)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %v to find out", took)
		}
		if got := s.Err().Error(); !contains(got, "every server refuses it") {
			t.Errorf("error %q does not say why", got)
		}
	})
}

// F21: servers without a leader hang up, too, for as long as they have none, and expire no session meanwhile.
// The session lives on.
func TestF21_NoLeaderForLong(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var down atomic.Bool
		serveFake(t, n, fakeAddr, func(p *peer) {
			if _, ok := p.hello(); !ok || down.Load() {
				return
			}
			p.zxid = 5
			p.grant(fakeSession, 6*time.Second)
			p.serve(nil)
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
		must(t, s.Sync(t.Context(), "/"))
		down.Store(true)
		n.Link("", "").Cut()
		time.Sleep(5 * time.Minute)
		down.Store(false)
		await(t, s, client.Connected)
		must(t, s.Sync(t.Context(), "/"))
	})
}

// F21: the servers have a leader again at the very moment at which the client asks whether they serve at all.
// That they refused it just before was no sign that they have lost anything.
func TestF21_ALeaderAtLast(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var down atomic.Bool
		serveFake(t, n, fakeAddr, func(p *peer) {
			req, ok := p.hello()
			if !ok || down.Load() && req.LastZxid > 0 {
				return
			}
			down.Store(false)
			p.zxid = 5
			p.grant(fakeSession, 6*time.Second)
			p.serve(nil)
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
		must(t, s.Sync(t.Context(), "/"))
		down.Store(true)
		cut(t, n, s)
		must(t, s.Sync(t.Context(), "/"))
	})
}

// F44: servers that have lost only the newest data know the session and refuse it all the same.
func TestF44_SetBack(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			if req, ok := p.hello(); ok && req.LastZxid == 0 {
				p.zxid = 5
				p.grant(fakeSession, 6*time.Second)
				p.serve(nil)
			}
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
		must(t, s.Sync(t.Context(), "/"))
		n.Link("", "").Cut()
		_, _, err := s.Get(short(t, time.Minute), "/n")
		wantErr(t, "get", err, zk.ErrSessionExpired)
	})
}

// The sessions of a server whose number is 128 or more have negative ids. They are named as ZooKeeper names them.
func TestNegativeID(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		const id = -1<<63 + 0x1234
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			if _, ok := p.hello(); ok {
				p.grant(id+int64(p.number-1), 10*time.Second)
				p.serve(nil)
			}
		})
		s := open(t, n, fakeAddr, client.Options{})
		if s.ID() != id || s.String() != "0x8000000000001234" {
			t.Errorf("the session is %d, %v", s.ID(), s)
		}
		n.Link("", "").Cut()
		<-s.Done()
		if got := s.Err().Error(); !strings.Contains(got, "session 0x8000000000001234: ") || !strings.Contains(got, "another session, 0x8000000000001235") {
			t.Errorf("after %d connections: %v", f.connections(), got)
		}
	})
}

// F46: a later connection may grant another timeout; the least one counts, and one below the limit ends the session.
func TestF46_GrantedTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		grants := []time.Duration{4 * time.Second, 8 * time.Second, 2 * time.Second}
		serveFake(t, n, fakeAddr, func(p *peer) {
			p.hello()
			p.grant(fakeSession, grants[p.number-1])
			p.serve(nil)
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: time.Minute, SessionTimeoutMin: 3 * time.Second})
		for i := range 2 {
			await(t, s, client.Connected)
			if want := grants[0]; s.Timeout() != want {
				t.Errorf("Timeout() = %v, want %v", s.Timeout(), want)
			}
			if i == 0 {
				cut(t, n, s)
			} else {
				n.Link("client", "").Cut()
			}
		}
		<-s.Done() // the third grant is too small
		if got := s.Err().Error(); !contains(got, "grants a timeout of 2s, at least 3s is required") {
			t.Errorf("error %q", got)
		}
	})
}

// A silent connection is given up after two thirds of the granted timeout, so that there is time for
// another server.
func TestSilentConnectionIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() && p.number == 1 {
				silent(p)
			}
			p.serve(nil)
		})
		states := make(chan client.State, 10)
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 9 * time.Second,
			Trace: client.Trace{State: func(st client.State) { states <- st }}})
		began := time.Now()
		st := <-states
		for st.Phase != client.Disconnected {
			st = <-states
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("given up after %v, want 6s", took)
		}
		if got, want := st.Cause.Error(), "nothing heard from zk:2181 for 6s"; got != want {
			t.Errorf("cause %q, want %q", got, want)
		}
		await(t, s, client.Connected)
	})
}

// A connection on which a message comes byte by byte is given up too: it is no sign of life of what answers requests.
// One that is only slow is kept.
func TestTricklingConnectionIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() && p.number == 1 {
				p.nc.Write([]byte{0, 0, 1, 0}) // a message of 256 bytes
				for b := []byte{0}; ; time.Sleep(time.Second) {
					if _, err := p.nc.Write(b); err != nil {
						return
					}
				}
			}
			p.serve(func(h heard) bool {
				if h.Op != wire.OpGetData {
					return false
				}
				b, start := wire.BeginFrame(nil)
				b = (&wire.ReplyHeader{Xid: h.Xid, Zxid: 1}).AppendTo(b)
				b = (&wire.DataResponse{Data: make([]byte, 1<<20)}).AppendTo(b)
				for b = wire.EndFrame(b, start); len(b) > 0; time.Sleep(100 * time.Millisecond) {
					n := min(len(b), 10<<10)
					p.nc.Write(b[:n])
					b = b[n:]
				}
				return true
			})
		})
		states := make(chan client.State, 10)
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 9 * time.Second,
			Trace: client.Trace{State: func(st client.State) { states <- st }}})
		began := time.Now()
		st := <-states
		for st.Phase != client.Disconnected {
			st = <-states
		}
		if took := time.Since(began); took < 6*time.Second || took > 7*time.Second {
			t.Errorf("given up after %v, want 6s", took)
		}
		if got, want := st.Cause.Error(), "zk:2181 began a message and sent less than 65536 bytes a second of it"; got != want {
			t.Errorf("cause %q, want %q", got, want)
		}
		await(t, s, client.Connected)
		began = time.Now()
		if data, _, err := s.Get(t.Context(), "/slow"); err != nil || len(data) != 1<<20 {
			t.Errorf("Get = %d bytes, %v after %v", len(data), err, time.Since(began))
		}
		if st, _ := s.State(); st.Conn != 2 {
			t.Errorf("on connection %d, want the second", st.Conn)
		}
	})
}

// A handshake that is never answered, as by a server that was just starting, does not cost the session.
func TestSilentHandshakeIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.number == 2 {
				silent(p)
				return
			}
			well(p)
		})
		const timeout = 6 * time.Second
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: timeout})
		began := time.Now()
		cut(t, n, s)
		if took := time.Since(began); took > timeout/2 {
			t.Errorf("reconnected after %v with a session timeout of %v", took, timeout)
		}
	})
}

// F50: a server that accepts and hangs up at once is no better than one that is down: the pauses grow and
// stay long, also if it gets as far as granting the session.
func TestF50_StormBound(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(p *peer)
	}{
		{"hangs up at once", func(p *peer) {}},
		{"hangs up on the request", func(p *peer) { p.hello() }},
		{"hangs up after the grant", func(p *peer) {
			if _, ok := p.hello(); ok {
				p.grant(fakeSession, 10*time.Second)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := serveFake(t, n, fakeAddr, tt.serve)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s, err := client.Open(ctx, fakeAddr, client.Options{Dial: n.Dialer("client")})
				if err == nil {
					<-ctx.Done()
					s.Close(short(t, time.Second))
				}
				// 50 ms doubling to 2 s, each up to half as long: at most about one a second.
				if got := f.connections(); got < 20 || got > 75 {
					t.Errorf("%d connections in a minute, want about 40", got)
				}
			})
		})
	}
}

// F50: names are looked up at every attempt, by the dialer; one that is not found costs nothing but its
// turn.
func TestF50_NamesAreResolvedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var mu sync.Mutex
		table := map[string]string{"zk1:2181": "10.0.0.1:2181"} // zk2 is not known
		dial := func(ctx context.Context, network, address string) (nc netConn, err error) {
			mu.Lock()
			ip, ok := table[address]
			mu.Unlock()
			if !ok {
				return nil, errors.New("no such host: " + address)
			}
			return n.DialAs(ctx, "client", ip)
		}
		old := serveFake(t, n, "10.0.0.1:2181", well)
		moved := serveFake(t, n, "10.0.0.2:2181", well)
		s := open(t, n, "zk1:2181,zk2:2181", client.Options{Dial: dial})
		if old.connections() != 1 {
			t.Errorf("%d connections to the old address, want 1", old.connections())
		}
		n.Link("", "10.0.0.1:2181").Refuse()
		mu.Lock()
		table["zk1:2181"] = "10.0.0.2:2181"
		mu.Unlock()
		n.Link("", "10.0.0.1:2181").Cut()
		_, _, err := s.Get(short(t, time.Minute), "/n")
		must(t, err)
		if moved.connections() != 1 {
			t.Errorf("%d connections to the new address, want 1", moved.connections())
		}
		if id := s.ID(); id != fakeSession {
			t.Errorf("session 0x%x, want the same as before", id)
		}
	})
}

// An attempt that a server refuses is told to Trace.Attempt as well.
func TestTraceTellsOfARefusal(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			p.hello()
			if p.number == 1 {
				p.grant(fakeSession, 10*time.Second)
				p.serve(nil)
				return
			}
			p.grant(0, 0) // no longer knows it
		})
		var ok, failed atomic.Int64
		s := open(t, n, fakeAddr, client.Options{Trace: client.Trace{Attempt: func(_ string, err error) {
			if err == nil {
				ok.Add(1)
			} else {
				failed.Add(1)
			}
		}}})
		n.Link("client", "").Cut()
		<-s.Done()
		time.Sleep(time.Second)
		if ok.Load() != 1 || failed.Load() != 1 {
			t.Errorf("two attempts: told of %d that succeeded and %d that failed", ok.Load(), failed.Load())
		}
	})
}
