package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
)

// The gap that docs/guarantees.md admits for the weakest vouching, and its closing, on a real ensemble:
// a holder is connected to a follower that is cut off from the others, and goes on being told pongs while
// the leader expires its session and gives the lock to another. With ping vouching both are certain to
// hold it, for seconds; with the others the first one's hold ends before. For each level it prints one
// line that begins with "chaos-vouch:".
func TestF17_WhatVouchingIsWorth(t *testing.T) {
	const (
		timeout = 6 * tick // of the session
		notice  = 30       // ticks in which the follower does not notice that it is cut off
	)
	e := apache.StartEnsemble(t, 3, apache.Options{Tick: tick, Config: map[string]string{"syncLimit": fmt.Sprint(notice)}})
	for _, tt := range []struct {
		level client.Vouch
		gap   bool
	}{{client.VouchPing, true}, {client.VouchSync, false}, {client.VouchWrite, false}} {
		t.Run(tt.level.String(), func(t *testing.T) {
			r := &run{t: t}
			r.openRegister("127.0.0.1")
			lonely := e.Followers()[0]
			var others []string
			for _, s := range e.Servers {
				if s != lonely {
					others = append(others, s.Addr())
				}
			}
			local := proxyHosts(2)
			key := strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:])
			config := clientConfig{Vouch: tt.level, Timeout: timeout, Keys: []string{key}, Cling: true, Seed: 1}
			config.Servers = []string{lonely.Addr()}
			r.startClient(local[0], config)
			await(t, "the first to hold the lock", r.clients[0].holds)
			config.Servers = others
			r.startClient(local[1], config)

			for _, s := range e.Servers {
				if s != lonely {
					e.CutOff(lonely, s)
				}
			}
			await(t, "the second to be granted the lock", r.clients[1].holds)
			time.Sleep(timeout) // both go on looking at their holds
			e.HealAll()
			lonely.AwaitServing()
			h := r.history()
			violations := judge(t, h, t.TempDir(), "vouch")
			var both time.Duration
			for _, o := range h.overlaps() {
				both += o.length
			}
			fmt.Printf("chaos-vouch: level=%v both_hold=%.2fs violations=%d\n", tt.level, both.Seconds(), len(violations))
			if gap := both > 0; gap != tt.gap {
				t.Errorf("both held the lock for %v, want that they do: %v", both, tt.gap)
			}
			if !tt.gap {
				for _, v := range violations {
					t.Error(v)
				}
			}
		})
	}
}

// await waits for something that happens soon on an idle machine.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(progressTimeout); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", progressTimeout, what)
		}
	}
}
