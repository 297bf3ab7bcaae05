package faultproxy

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

func TestStallHoldsBackWhatTravelsOneWay(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		c := dialThrough(t, p)
		c.log()
		p.SetFlow(ToClient, Stall)
		c.send(create("/l/a-"))
		want(t, "client heard", c.log(), "connected")
		want(t, "server saw", s.log(), "connect, create /l/a-")
		p.SetFlow(ToServer, Stall)
		c.send(list("/l"))
		c.nc.Close() // the server does not learn of it
		time.Sleep(time.Hour)
		want(t, "server saw", s.log(), "connect, create /l/a-")
		p.SetFlows(Pass)
		synctest.Wait()
		want(t, "server saw once the network had healed", s.log()[:22], "connect, create /l/a-,")
		if n := len(p.Conns()); n != 0 {
			t.Errorf("%d connections are open, want 0", n)
		}
	})
}

// In a stall neither side learns that the other has hung up.
func TestStallHidesTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		c := dialThrough(t, p)
		c.log()
		p.SetFlow(ToServer, Stall)
		c.nc.Close()
		time.Sleep(time.Hour)
		want(t, "server saw", s.log(), "connect")
		p.SetFlow(ToServer, Pass)
		synctest.Wait()
		want(t, "server saw once the network had healed", s.log(), "connect, end")
	})
}

// What a stall holds back arrives when it is over, in order; the client's writes did not block.
func TestStallEnds(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		c := dialThrough(t, p)
		c.log()
		p.SetFlows(Stall)
		for range 100 {
			c.send(ping)
		}
		c.send(list("/l"))
		c.log()
		want(t, "server saw", s.log(), "connect")
		p.SetFlows(Pass)
		c.log()
		if got := len(p.Since(0).Answered(wire.OpPing)); got != 100 {
			t.Errorf("%d pings were answered, want 100", got)
		}
		want(t, "end of what the client heard", c.log()[len(c.log())-3:], "101")
	})
}

func TestDialThroughABlackHole(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		p.SetFlow(ToServer, Stall)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err := p.Dial(ctx, "tcp", "server:2181")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("Dial failed after %v with %v, want the context's end after 1s", time.Since(begin), err)
		}
		time.AfterFunc(time.Second, func() { p.SetFlow(ToServer, Pass) })
		want(t, "client heard after the network had healed", dialThrough(t, p).log(), "connected")
	})
}

func TestCloseEndsADialThatBlocks(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		p.SetFlow(ToClient, Stall)
		time.AfterFunc(time.Second, p.Close)
		if _, err := p.Dial(t.Context(), "tcp", "server:2181"); !errors.Is(err, ErrClosed) {
			t.Errorf("Dial: %v, want ErrClosed", err)
		}
	})
}

func TestRefuse(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		c := dialThrough(t, p)
		p.Refuse(true)
		if _, err := p.Dial(t.Context(), "tcp", "server:2181"); !errors.Is(err, ErrRefused) {
			t.Errorf("Dial: %v, want ErrRefused", err)
		}
		c.send(ping)
		want(t, "the open connection's client heard", c.log(), "connected, -2")
		p.CutAll()
		want(t, "and then", c.log(), "connected, -2, end")
		p.Refuse(false)
		want(t, "next client heard", dialThrough(t, p).log(), "connected")
	})
}

func TestCloseEndsEverything(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		p.Hold(Match{Ops: Lists()}, time.Hour)
		held, stalled := dialThrough(t, p), dialThrough(t, p)
		held.send(list("/l"))
		stalled.log()
		p.SetFlows(Stall)
		stalled.send(ping)
		begin := time.Now()
		p.Close()
		if d := time.Since(begin); d != 0 {
			t.Errorf("Close took %v", d)
		}
		if n := len(p.Conns()); n != 0 {
			t.Errorf("%d connections are open after Close", n)
		}
		for _, c := range []*fakeClient{held, stalled} {
			want(t, "client heard", c.log(), "connected, end")
		}
		p.SetFlows(Pass)
		if _, err := p.Dial(t.Context(), "tcp", "server:2181"); !errors.Is(err, ErrClosed) {
			t.Errorf("Dial after Close: %v, want ErrClosed", err)
		}
	})
}

// Through a listener, on the network that tests use.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		server, err := n.Listen("server:2181")
		if err != nil {
			t.Fatal(err)
		}
		front, err := n.Listen("proxy:2181")
		if err != nil {
			t.Fatal(err)
		}
		s := &fakeServer{}
		s.wg.Go(func() {
			for {
				nc, err := server.Accept()
				if err != nil {
					return
				}
				s.wg.Go(func() { s.serve(nc) })
			}
		})
		p := New(n.Dialer("proxy"))
		served := make(chan error, 1)
		go func() { served <- p.Serve(front, "mem", "server:2181") }()

		dial := func() *fakeClient {
			nc, err := n.Dialer("client")(t.Context(), "mem", "proxy:2181")
			if err != nil {
				t.Fatal(err)
			}
			return newFakeClient(t, nc)
		}
		c := dial()
		c.send(create("/l/a-"), list("/l"))
		want(t, "client heard", c.log(), "connected, 1, 2")
		if asked := p.Since(0).Asked(wire.OpCreate2, wire.OpGetChildren); asked.Reads() != 1 {
			t.Errorf("one write was seen as %d:\n%v", asked.Reads(), asked)
		}
		p.Refuse(true)
		want(t, "second client heard", dial().log(), "end")
		p.Close()
		want(t, "client heard", c.log(), "connected, 1, 2, end")
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v, want ErrClosed", err)
		}
		server.Close()
		s.wg.Wait()
	})
}

// Over real sockets, through a listener, with the answer to a four-letter word on the way.
func TestListen(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		word := make([]byte, 4)
		if _, err := nc.Read(word); err == nil {
			nc.Write([]byte("imok, you said " + string(word)))
		}
	}()
	var d net.Dialer
	p := New(d.DialContext)
	defer p.Close()
	addr, err := p.Listen("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	nc.Write([]byte("ruok"))
	buf := make([]byte, 64)
	n, err := nc.Read(buf)
	want(t, "answer", string(buf[:n]), "imok, you said ruok")
	if err != nil {
		t.Error(err)
	}
}
