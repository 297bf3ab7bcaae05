package cache_test

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// benchCache caches n znodes of 100 bytes from our server, over TCP.
func benchCache(b *testing.B, n int) (*client.Session, *client.Keeper) {
	b.Helper()
	srv, err := server.Open(bridge.OnDisk(server.Options{DataDir: "/data"}, vfs.NewMem()))
	must(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	var wg sync.WaitGroup
	wg.Go(func() { srv.Serve(l) })
	b.Cleanup(func() {
		srv.Close()
		wg.Wait()
	})
	addr := l.Addr().String()
	s, err := client.Open(b.Context(), addr, client.Options{})
	must(b, err)
	b.Cleanup(func() { s.Close(context.Background()) })
	fill(b, s, "/r", n, make([]byte, 100))
	k, err := client.Keep(b.Context(), addr, client.Options{})
	must(b, err)
	b.Cleanup(func() { k.Close(context.Background()) })
	return s, k
}

// How long it takes to read 100,000 znodes of 100 bytes, and how much memory a znode takes beyond its data.
func BenchmarkLoad(b *testing.B) {
	const znodes = 100_000
	_, k := benchCache(b, znodes)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		c, err := cache.Open(b.Context(), k, "/r", cache.Options{})
		must(b, err)
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if c.View().Len() != znodes+1 {
			b.Fatalf("%d znodes", c.View().Len())
		}
		must(b, c.Close(b.Context()))
		b.StartTimer()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/znodes-100, "B/znode-beyond-data")
}

// How long it takes until 1,000 readers have seen a change, which comes as one event of the server.
func BenchmarkThousandReaders(b *testing.B) {
	const readers = 1000
	s, k := benchCache(b, 100)
	c, err := cache.Open(b.Context(), k, "/r", cache.Options{})
	must(b, err)
	defer c.Close(b.Context())
	ks, err := k.Session(b.Context())
	must(b, err)
	before := ks.Stats().Events
	var seen sync.WaitGroup
	seen.Add(readers * c.View().Len()) // what there is
	for range readers {
		go func() {
			for _, err := range c.Changes(b.Context()) {
				if err != nil {
					return
				}
				seen.Done()
			}
		}()
	}
	seen.Wait()
	n := 0
	for b.Loop() {
		n++
		seen.Add(readers)
		_, err := s.Set(b.Context(), "/r/n000007", []byte(strconv.Itoa(n)), zk.AnyVersion)
		must(b, err)
		seen.Wait()
	}
	b.ReportMetric(float64(ks.Stats().Events-before)/float64(n), "events/change")
}

func BenchmarkGet(b *testing.B) {
	_, k := benchCache(b, 10_000)
	c, err := cache.Open(b.Context(), k, "/r", cache.Options{})
	must(b, err)
	defer c.Close(b.Context())
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok := c.Get("/r/n005000"); !ok {
				b.Error("missing")
			}
		}
	})
}
