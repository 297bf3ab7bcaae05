package client_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// F19: a connection that falls silent in the middle of a message is given up after two thirds of the timeout, however long the
// message is, so that the session lives on at another server.
func TestF19_SilenceInTheMiddleOfAMessage(t *testing.T) {
	for _, length := range []uint32{64 << 10, 1 << 20, 0x7fffffff} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			serveFake(t, n, fakeAddr, func(p *peer) {
				if p.open() && p.number == 1 {
					p.nc.Write(binary.BigEndian.AppendUint32(nil, length))
					p.nc.Write(make([]byte, 100))
					for ok := true; ok; {
						_, ok = p.next()
					}
				}
				p.serve(nil)
			})
			states := make(chan client.State, 10)
			open(t, n, fakeAddr, client.Options{SessionTimeout: 9 * time.Second, Trace: client.Trace{State: func(st client.State) { states <- st }}})
			began := time.Now()
			st := <-states
			for st.Phase != client.Disconnected {
				st = <-states
			}
			if took := time.Since(began); took < 6*time.Second || took > 7*time.Second {
				t.Errorf("a message of %d bytes: given up after %v, want 6s", length, took)
			}
			if got, want := st.Cause.Error(), "nothing heard from zk:2181 for 6s"; got != want {
				t.Errorf("%d bytes: cause %q, want %q", length, got, want)
			}
		})
	}
}

// F20: an attempt to reach a server that accepts and never answers takes no more than its part of the timeout that was granted,
// which may be much less than was asked for.
func TestF20_AttemptsGoByTheGrantedTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serve := func(p *peer) {
			if _, ok := p.hello(); ok {
				p.grant(fakeSession, 4*time.Second)
				p.serve(nil)
			}
		}
		serveFake(t, n, "a:2181", serve)
		s := open(t, n, "a:2181,b:2181", client.Options{SessionTimeout: 40 * time.Second, BackoffMax: 50 * time.Millisecond})
		serveFake(t, n, "b:2181", silent)
		for range 20 {
			began := time.Now()
			cut(t, n, s)
			if took := time.Since(began); took > 2*time.Second {
				t.Fatalf("the reconnect took %v, longer than the session can wait", took)
			}
		}
	})
}

// F44: a session that was given up because every server is behind it is not known to have ended: one of them may know it.
func TestF44_GivenUpIsNotGone(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		behind := false
		serveFake(t, n, fakeAddr, func(p *peer) {
			req, ok := p.hello()
			if !ok || behind && req.LastZxid > 3 {
				return
			}
			p.zxid = 7
			p.grant(fakeSession, 6*time.Second)
			p.serve(nil)
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
		must(t, s.Sync(t.Context(), "/"))
		_, _, err := s.Get(t.Context(), "/n")
		must(t, err)
		behind = true
		n.Link("", "").Cut()
		<-s.Done()
		wantErr(t, "the session", s.Err(), zk.ErrSessionExpired)
		if s.Gone(t.Context()) {
			t.Error("the session is said to have ended, and the server has just resumed it")
		}
		if err := s.Close(t.Context()); err == nil {
			t.Error("Close says that the ensemble has ended the session")
		}
	})
}

// An error that a server answers to a ping says what an error says that it answers to any request.
func TestF18_AnErrorIsNoProofOfLife(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			p.open()
			p.serve(func(h heard) bool {
				if h.Op == wire.OpPing {
					p.answer(wire.XidPing, zk.ErrSessionExpired, nil)
				}
				return h.Op == wire.OpPing
			})
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
		v := s.Vouch(client.VouchPing)
		defer v.Stop()
		time.Sleep(5 * time.Second)
		if age := s.Age(client.VouchPing); age < 5*time.Second {
			t.Errorf("a ping that was refused because the session has expired counts as one that was answered %v ago", age)
		}
	})
}

// F15: a Logger that blocks costs the session neither its heartbeats nor its reconnects, and Close returns.
func TestALoggerThatBlocks(t *testing.T) {
	for _, on := range []string{"connected", "disconnected", "closed"} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			srv := start(t, n, "zk:2181")
			h := &stateHandler{Handler: slog.DiscardHandler, blocks: make(chan struct{})}
			s := open(t, n, "zk:2181", client.Options{SessionTimeout: 10 * time.Second, Logger: slog.New(h)})
			synctest.Wait()
			h.state.Store(on)
			id := s.ID()
			cut(t, n, s)
			<-time.After(time.Minute)
			if _, _, err := s.Get(short(t, time.Second), "/"); err != nil || s.ID() != id {
				t.Errorf("%s: %v, session %x, want %x", on, err, s.ID(), id)
			}
			began := time.Now()
			must(t, s.Close(t.Context()))
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: Close took %v", on, took)
			}
			close(h.blocks)
			srv.down()
		})
	}
}

// A Keeper opens the next session although its Logger blocks on the line about the last one.
func TestALoggerOfAKeeperThatBlocks(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, "zk:2181")
		h := &stateHandler{Handler: slog.DiscardHandler, blocks: make(chan struct{})}
		h.state.Store("no session, trying again")
		k, err := client.Keep(t.Context(), "zk:2181", clock.With(client.Options{Dial: n.Dialer("client"), Logger: slog.New(h)}, &clock.Clock{}))
		must(t, err)
		defer k.Close(context.Background())
		defer close(h.blocks)
		first, err := k.Session(t.Context())
		must(t, err)
		must(t, first.Close(t.Context())) // within a second of its opening
		if next, err := k.Session(short(t, time.Minute)); err != nil || next == first {
			t.Errorf("no next session: %v", err)
		}
	})
}

// A stateHandler blocks on the line of one state, or on one line.
type stateHandler struct {
	slog.Handler
	state  atomic.Value
	blocks chan struct{}
}

func (h *stateHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *stateHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.state.Load() {
		<-h.blocks
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "state" && a.Value.String() == h.state.Load() {
			<-h.blocks
		}
		return true
	})
	return nil
}
