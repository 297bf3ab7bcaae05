package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/gcpace"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// residentBytes is the resident memory of this process, 0 where the system does not say.
func residentBytes(b *testing.B, key string) int64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), key+":")
	line, _, _ := strings.Cut(rest, "kB")
	kb, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kb << 10
}

// fill creates n znodes of dataBytes below /dir over the wire, through several connections with
// many requests in flight each.
func fill(b *testing.B, dial func() *peer, n int) {
	const connections, inFlight = 8, 32
	dial().create("/dir", zk.Persistent)
	data := make([]byte, dataBytes)
	var wg sync.WaitGroup
	for c := range connections {
		p := dial()
		wg.Go(func() {
			var buf []byte
			for sent, received, i := 0, 0, c; received < sent || i < n; {
				if i < n && sent-received < inFlight {
					r := createReq(fmt.Sprintf("/dir/n%07d", i), zk.Persistent)
					r.Data = data
					p.nc.Write(frameOf(1, wire.OpCreate, r))
					sent, i = sent+1, i+connections
					continue
				}
				var err error
				if buf, err = wire.ReadFrame(p.in, buf, 1<<20); err != nil {
					b.Error(err)
					return
				}
				received++
			}
		})
	}
	wg.Wait()
}

func benchDialer(b *testing.B, s *Server) func() *peer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve(l)
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

// BenchmarkMillion creates a million znodes of 100 bytes over TCP and reports what that adds to the
// resident memory of the process, clients included, at the end (rss-MB) and at most (peak-MB), and how long it
// takes to open the directory again. The garbage collector is set as the command
// sets it.
func BenchmarkMillion(b *testing.B) {
	const n, mb = 1_000_000, 1 << 20
	dir := b.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	var pace sync.WaitGroup
	pace.Go(func() { gcpace.Run(ctx) })
	defer pace.Wait()
	defer cancel()
	for b.Loop() {
		runtime.GC()
		before := residentBytes(b, "VmRSS")
		s, err := Open(Options{DataDir: dir, ConnectionsPerAddressMax: -1})
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		fill(b, benchDialer(b, s), n)
		b.ReportMetric(float64(n)/time.Since(began).Seconds(), "creates/s")
		b.ReportMetric(float64(residentBytes(b, "VmRSS")-before)/mb, "rss-MB")
		b.ReportMetric(float64(residentBytes(b, "VmHWM")-before)/mb, "peak-MB")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		s = nil
		runtime.GC()
		began = time.Now()
		if s, err = Open(Options{DataDir: dir}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "reopen-s")
		if got := s.Stats().Znodes; got != n+6 {
			b.Fatalf("%d znodes", got)
		}
		s.Close()
	}
}

// BenchmarkOpenEmpty is the time from nothing to a server that can answer.
func BenchmarkOpenEmpty(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		s, err := Open(Options{DataDir: fmt.Sprint(b.TempDir(), "/", i)})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}
