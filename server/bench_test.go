package server

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// benchServer is a server on the real disk and a real socket.
func benchServer(b *testing.B) (dial func() *peer) {
	s, err := Open(Options{DataDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve(l)
	b.Cleanup(func() { s.Close() })
	return func() *peer {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { nc.Close() })
		p := newPeer(b, nc)
		p.handshake(wire.ConnectRequest{Timeout: 40000})
		return p
	}
}

// exchange sends a frame so many times, with so many in flight, and reads the answers, which are
// all of one size.
func (p *peer) exchange(frame []byte, answerBytes, times, inFlight int) {
	buf := make([]byte, answerBytes)
	for sent, received := 0, 0; received < times; {
		for sent < times && sent-received < inFlight {
			if _, err := p.nc.Write(frame); err != nil {
				p.t.Error(err)
				return
			}
			sent++
		}
		if _, err := io.ReadFull(p.in, buf); err != nil {
			p.t.Error(err)
			return
		}
		received++
	}
}

const (
	setAnswerBytes = 4 + 16 + 68
	dataBytes      = 100
	getAnswerBytes = 4 + 16 + 4 + dataBytes + 68
)

var setFrame = frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/n", Data: make([]byte, dataBytes), Version: -1})

// BenchmarkSetOneAtATime is one client that waits for each write: the price of a sync and two
// changes of goroutine.
func BenchmarkSetOneAtATime(b *testing.B) {
	p := benchServer(b)()
	p.create("/n", zk.Persistent)
	b.ReportAllocs()
	for b.Loop() {
		p.exchange(setFrame, setAnswerBytes, 1, 1)
	}
}

// BenchmarkGetOneAtATime is one client that waits for each read.
func BenchmarkGetOneAtATime(b *testing.B) {
	p := benchServer(b)()
	p.create("/n", zk.Persistent)
	p.exchange(setFrame, setAnswerBytes, 1, 1)
	get := frameOf(1, wire.OpGetData, &wire.WatchRequest{Path: "/n"})
	b.ReportAllocs()
	for b.Loop() {
		p.exchange(get, getAnswerBytes, 1, 1)
	}
}

func benchmarkMany(b *testing.B, frame []byte, answerBytes int) {
	const connections, inFlight, stretch = 16, 16, 256
	dial := benchServer(b)
	var peers []*peer
	for range connections {
		peers = append(peers, dial())
	}
	peers[0].create("/n", zk.Persistent)
	peers[0].exchange(setFrame, setAnswerBytes, 1, 1)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		var wg sync.WaitGroup
		for _, p := range peers {
			wg.Go(func() { p.exchange(frame, answerBytes, stretch, inFlight) })
		}
		wg.Wait()
		n += connections * stretch
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "requests/s")
}

// 16 connections with 16 requests in flight each.
func BenchmarkGetMany(b *testing.B) {
	benchmarkMany(b, frameOf(1, wire.OpGetData, &wire.WatchRequest{Path: "/n"}), getAnswerBytes)
}

func BenchmarkSetMany(b *testing.B) { benchmarkMany(b, setFrame, setAnswerBytes) }
