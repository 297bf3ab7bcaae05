package attack

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	bystanders     = 8 // sessions that only ping
	sessionTimeout = 6 * time.Second
	pace           = 10 * time.Millisecond // between the victim's requests
)

// victim is the client that behaves well, and the sessions beside it.
type victim struct {
	sessions []*client.Session
}

// newVictim opens the sessions before the attack begins.
func newVictim(t *testing.T, addr string) *victim {
	t.Helper()
	v := &victim{}
	for i := range bystanders {
		s, err := client.Open(t.Context(), addr, client.Options{SessionTimeout: sessionTimeout})
		if err != nil {
			t.Fatal(err)
		}
		v.sessions = append(v.sessions, s)
		if _, err := s.Create(t.Context(), fmt.Sprintf("/victim%d", i), nil, zk.Ephemeral, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func (v *victim) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range v.sessions {
		wg.Go(func() { s.Close(ctx) })
	}
	wg.Wait()
}

// lost returns how many of the sessions have ended.
func (v *victim) lost() int {
	n := 0
	for _, s := range v.sessions {
		if s.Err() != nil {
			n++
		}
	}
	return n
}

// latencies are how long the victim waited.
type latencies struct {
	all    []time.Duration
	failed int
}

// watch asks at a fixed pace until ctx ends: three reads and a write, by turns.
func (v *victim) watch(ctx context.Context) latencies {
	var l latencies
	s := v.sessions[0]
	due := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		var err error
		asking, cancel := context.WithTimeout(ctx, ioTimeout)
		if i%4 == 3 {
			_, err = s.Set(asking, "/victim0", []byte("x"), -1)
		} else {
			_, _, err = s.Get(asking, "/victim0")
		}
		cancel()
		if ctx.Err() == nil && err != nil {
			l.failed++
		}
		l.all = append(l.all, time.Since(due))
		due = due.Add(pace)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
	}
	slices.Sort(l.all)
	return l
}

func (l latencies) quantile(q float64) time.Duration {
	if len(l.all) == 0 {
		return 0
	}
	return l.all[min(int(q*float64(len(l.all))), len(l.all)-1)]
}

func (l latencies) max() time.Duration { return l.quantile(1) }
