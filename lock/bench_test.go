package lock_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/server"
)

// benchServers returns the servers to measure: those of LOCKKEEPER_BENCH_SERVERS, or a server of our own
// on the real disk and loopback.
func benchServers(b *testing.B) string {
	b.Helper()
	if servers := os.Getenv("LOCKKEEPER_BENCH_SERVERS"); servers != "" {
		return servers
	}
	srv, err := server.Open(server.Options{DataDir: b.TempDir(), ConnectionsPerAddressMax: -1})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	b.Cleanup(func() {
		srv.Close()
		<-served
	})
	return l.Addr().String()
}

func benchSession(b *testing.B, servers string, opt client.Options) *client.Session {
	b.Helper()
	s, err := client.Open(b.Context(), servers, opt)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func benchMutex(b *testing.B, s *client.Session, path string) *lock.Mutex {
	b.Helper()
	m, err := lock.NewMutex(s, path, lock.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// cycle acquires and releases once.
func cycle(ctx context.Context, m lock.Locker) error {
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return h.Release(ctx)
}

// BenchmarkFree takes and gives back a lock that no other contender wants: one round trip each.
func BenchmarkFree(b *testing.B) {
	s := benchSession(b, benchServers(b), client.Options{})
	unfair, err := lock.NewUnfair(s, "/bench/unfair", lock.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, l := range map[string]lock.Locker{"mutex": benchMutex(b, s, "/bench/free"), "unfair": unfair} {
		b.Run(name, func(b *testing.B) {
			if err := cycle(b.Context(), l); err != nil { // the directory is there
				b.Fatal(err)
			}
			before := s.Stats()
			b.ReportAllocs()
			for b.Loop() {
				if err := cycle(b.Context(), l); err != nil {
					b.Fatal(err)
				}
			}
			after := s.Stats()
			n := float64(b.N)
			b.ReportMetric(float64(after.Requests-before.Requests)/n, "requests/op")
			b.ReportMetric(float64(after.Writes-before.Writes)/n, "roundtrips/op")
		})
	}
}

// BenchmarkHandOver has several sessions pass one lock on as fast as they can. The listings counted are
// those besides the one that joins the queue.
func BenchmarkHandOver(b *testing.B) {
	for _, clients := range []int{2, 8, 100} {
		b.Run(fmt.Sprintf("%d", clients), func(b *testing.B) {
			servers := benchServers(b)
			var sessions []*client.Session
			for range clients {
				sessions = append(sessions, benchSession(b, servers, client.Options{}))
			}
			if err := cycle(b.Context(), benchMutex(b, sessions[0], "/bench/handover")); err != nil {
				b.Fatal(err)
			}
			var before, after client.Stats
			add := func(sum *client.Stats) {
				for _, s := range sessions {
					st := s.Stats()
					sum.Requests += st.Requests
					sum.Events += st.Events
				}
			}
			add(&before)
			turns := make(chan struct{}, clients)
			var wg sync.WaitGroup
			for _, s := range sessions {
				m := benchMutex(b, s, "/bench/handover")
				wg.Go(func() {
					for range turns {
						if err := cycle(context.Background(), m); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				turns <- struct{}{}
			}
			close(turns)
			wg.Wait()
			add(&after)
			n := float64(b.N)
			b.ReportMetric(float64(after.Requests-before.Requests)/n, "requests/op")
			b.ReportMetric(float64(after.Events-before.Events)/n, "events/op")
		})
	}
}

// BenchmarkReaders has 64 sessions take the read side of one lock, without writers, beside as many that take
// a mutex each: readers shall not pay for being together. The sub-benchmarks take turns, so compare them over
// several -count.
func BenchmarkReaders(b *testing.B) {
	const clients = 64
	servers := benchServers(b)
	var sessions []*client.Session
	for range clients {
		sessions = append(sessions, benchSession(b, servers, client.Options{}))
	}
	for _, together := range []bool{true, false} {
		name := "64 mutexes"
		if together {
			name = "64 readers"
		}
		b.Run(name, func(b *testing.B) {
			acquire := make([]func(context.Context) (*lock.Hold, error), clients)
			for i, s := range sessions {
				if !together {
					acquire[i] = benchMutex(b, s, fmt.Sprintf("/bench/alone/%d", i)).Lock
					continue
				}
				m, err := lock.NewRWMutex(s, "/bench/readers", lock.Options{})
				if err != nil {
					b.Fatal(err)
				}
				acquire[i] = m.RLock
			}
			var wg sync.WaitGroup
			turns := make(chan struct{}, clients)
			for _, lock := range acquire {
				wg.Go(func() {
					for range turns {
						h, err := lock(context.Background())
						if err == nil {
							err = h.Release(context.Background())
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				turns <- struct{}{}
			}
			close(turns)
			wg.Wait()
		})
	}
}

// BenchmarkThousandWaiters releases a lock for which a thousand wait, each with a session of its own, and
// counts what each release makes all of them do until the next is granted. The one that is woken is told
// twice, of the release marker and of the node, which is one transaction and comes in one read from a server that
// writes all that it has; the one that released is told of its own node.
func BenchmarkThousandWaiters(b *testing.B) {
	const waiters = 1000
	servers := benchServers(b)
	proxy := faultproxy.New((&net.Dialer{}).DialContext)
	b.Cleanup(func() { proxy.Close() }) // after the sessions, which say good-bye through it
	var all []*client.Session
	for range waiters {
		all = append(all, benchSession(b, servers, client.Options{Dial: proxy.Dial, SessionTimeout: 40 * time.Second}))
	}
	ctx, cancel := context.WithCancel(b.Context())
	granted := make(chan *lock.Hold)
	var wg sync.WaitGroup
	for i := range waiters {
		m := benchMutex(b, all[i], "/bench/thousand")
		wg.Go(func() {
			for ctx.Err() == nil { // the queue stays as long as it is
				if h, err := m.Lock(ctx); err == nil {
					granted <- h
				}
			}
		})
	}
	hold := <-granted
	for {
		line, err := inspect.Contenders(ctx, all[0], "/bench/thousand")
		if err != nil {
			b.Fatal(err)
		}
		if len(line) > waiters { // those that wait, and the holder
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	mark := proxy.Mark()
	releases, woken := 0, 0
	for b.Loop() {
		before := proxy.Mark()
		if err := hold.Release(ctx); err != nil {
			b.Fatal(err)
		}
		hold = <-granted
		releases++
		woken += len(toldByOthers(proxy.Since(before)))
	}
	log := proxy.Since(mark)
	b.ReportMetric(float64(len(log.Asked()))/float64(releases), "requests/release")
	b.ReportMetric(float64(len(log.Asked(faultproxy.Lists()...)))/float64(releases), "listings/release")
	b.ReportMetric(float64(woken)/float64(releases), "woken/release")
	events := 0
	for _, e := range log {
		if e.Kind == faultproxy.Notified {
			events++
		}
	}
	b.ReportMetric(float64(events)/float64(releases), "events/release")
	cancel()
	go func() { wg.Wait(); close(granted) }()
	hold.Release(context.Background())
	for h := range granted {
		h.Release(context.Background())
	}
}

// toldByOthers returns the connections that were notified without having released anything themselves.
func toldByOthers(log faultproxy.Log) map[int]bool {
	told := map[int]bool{}
	for _, e := range log {
		if e.Kind == faultproxy.Notified {
			told[e.Conn] = true
		}
	}
	for _, e := range log.Asked(wire.OpDelete, wire.OpMulti) {
		delete(told, e.Conn)
	}
	return told
}

// BenchmarkIdleHold counts what a session sends while it holds a lock and does nothing else: at most one
// small request in a sixth of its timeout.
func BenchmarkIdleHold(b *testing.B) {
	s := benchSession(b, benchServers(b), client.Options{SessionTimeout: 6 * time.Second})
	hold, err := benchMutex(b, s, "/bench/idle").Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer hold.Release(context.Background())
	sixth := s.Timeout() / 6
	time.Sleep(sixth) // the own node's watch is set by now
	before, began := s.Stats(), time.Now()
	for b.Loop() {
		time.Sleep(sixth)
	}
	sixths := float64(time.Since(began)) / float64(sixth)
	b.ReportMetric(float64(s.Stats().Requests-before.Requests)/sixths, "requests/sixth")
}
