package lock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

// BenchmarkHerd shows what the order of a queue is worth: a lock for which that many wait, each with a session
// of its own, passes from one to another, and it is counted what that makes all of them do until they are at
// rest again. A holder that has released comes back, which is part of the count.
func BenchmarkHerd(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(*client.Session, string) (func(context.Context) (*lock.Hold, error), error)
	}{
		{"fair", func(s *client.Session, path string) (func(context.Context) (*lock.Hold, error), error) {
			m, err := lock.NewMutex(s, path, lock.Options{})
			return m.Lock, err
		}},
		{"unfair", func(s *client.Session, path string) (func(context.Context) (*lock.Hold, error), error) {
			u, err := lock.NewUnfair(s, path, lock.Options{})
			return u.Lock, err
		}},
	} {
		for _, waiters := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, waiters), func(b *testing.B) {
				servers := benchServers(b)
				h := newHerd(b, servers, waiters, func(s *client.Session) func(context.Context) (*lock.Hold, error) {
					f, err := kind.make(s, "/bench/herd/"+kind.name)
					if err != nil {
						b.Fatal(err)
					}
					return f
				})
				h.run(b)
			})
		}
	}
}

// A herd is one holder and those that wait.
type herd struct {
	sessions []*client.Session
	granted  chan *lock.Hold
	held     *lock.Hold
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

func newHerd(b *testing.B, servers string, waiters int, way func(*client.Session) func(context.Context) (*lock.Hold, error)) *herd {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	h := &herd{granted: make(chan *lock.Hold), stop: stop}
	for range waiters + 1 {
		s := benchSession(b, servers, client.Options{SessionTimeout: 40 * time.Second})
		h.sessions = append(h.sessions, s)
		take := way(s)
		h.wg.Go(func() {
			for ctx.Err() == nil {
				if hold, err := take(ctx); err == nil {
					h.granted <- hold
					<-hold.Done()
				}
			}
		})
	}
	h.held = <-h.granted
	h.rest()
	return h
}

// count returns what all sessions have sent, heartbeats aside, and been told.
func (h *herd) count() (requests, replies, events uint64) {
	for _, s := range h.sessions {
		st := s.Stats()
		requests, replies, events = requests+st.Requests-st.Heartbeats, replies+st.Replies-st.Heartbeats, events+st.Events
	}
	return requests, replies, events
}

// rest waits until all are idle.
func (h *herd) rest() {
	const still = 5 // looks at which nothing has changed
	var last [3]uint64
	for n := 0; n < still; time.Sleep(5 * time.Millisecond) {
		requests, replies, events := h.count()
		now := [3]uint64{requests, replies, events}
		n++
		if now != last || requests != replies {
			n, last = 0, now
		}
	}
}

func (h *herd) run(b *testing.B) {
	requests, _, events := h.count()
	var took time.Duration
	for b.Loop() {
		began := time.Now()
		if err := h.held.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
		h.held = <-h.granted
		took += time.Since(began)
		h.rest()
	}
	afterRequests, _, afterEvents := h.count()
	n := float64(b.N)
	b.ReportMetric(0, "ns/op") // most of it is waiting for rest
	b.ReportMetric(float64(took.Microseconds())/n, "µs/hand-over")
	b.ReportMetric(float64(afterRequests-requests)/n, "requests/hand-over")
	b.ReportMetric(float64(afterEvents-events)/n, "events/release")
	h.stop()
	go func() { h.wg.Wait(); close(h.granted) }()
	h.held.Release(context.Background())
	for hold := range h.granted {
		hold.Release(context.Background())
	}
}
