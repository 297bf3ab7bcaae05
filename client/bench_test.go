package client_test

import (
	"context"
	"net"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// echo answers gets as fast as it can and allocates nothing, so that a benchmark counts the client alone.
func echo(nc net.Conn) {
	p := &peer{nc: nc, number: 1}
	if _, ok := p.hello(); !ok {
		return
	}
	p.grant(fakeSession, 1<<30)
	var buf, out []byte
	answer := (&wire.DataResponse{Data: make([]byte, 100)}).AppendTo(nil)
	for {
		var err error
		if buf, err = wire.ReadFrame(nc, buf, wire.FrameBytesMax); err != nil {
			return
		}
		d := wire.NewDecoder(buf)
		xid := d.Int32()
		var start int
		out, start = wire.BeginFrame(out[:0])
		out = (&wire.ReplyHeader{Xid: xid, Zxid: 1, Err: zk.OK}).AppendTo(out)
		if d.Int32() == int32(wire.OpGetData) {
			out = append(out, answer...)
		}
		nc.Write(wire.EndFrame(out, start))
	}
}

func benchSession(b *testing.B, ln net.Listener, addr string, dial func(context.Context, string, string) (net.Conn, error)) *client.Session {
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go echo(nc)
		}
	}()
	s, err := client.Open(b.Context(), addr, client.Options{Dial: dial})
	must(b, err)
	b.Cleanup(func() {
		s.Close(context.Background())
		ln.Close()
	})
	return s
}

func overMemory(b *testing.B) *client.Session {
	n := memnet.New()
	ln, err := n.Listen(fakeAddr)
	must(b, err)
	return benchSession(b, ln, fakeAddr, n.Dialer("client"))
}

func overLoopback(b *testing.B) *client.Session {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	return benchSession(b, ln, ln.Addr().String(), nil)
}

func BenchmarkGet(b *testing.B) {
	for name, open := range map[string]func(*testing.B) *client.Session{"memory": overMemory, "loopback": overLoopback} {
		b.Run(name, func(b *testing.B) {
			s, ctx := open(b), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := s.Get(ctx, "/locks/nightly-backup"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Sixteen requests of a pipeline count as sixteen operations.
func BenchmarkGetPipelined(b *testing.B) {
	s, ctx := overLoopback(b), context.Background()
	b.ReportAllocs()
	var last *client.Pending[client.Node]
	for i := 0; b.Loop(); i++ {
		if i%16 != 0 {
			continue
		}
		p := s.Pipeline()
		for range 16 {
			last = p.Get("/locks/nightly-backup")
		}
		p.Send(ctx)
		if _, err := last.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
