package fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func nothing(context.Context) error { return nil }

func wantStale(t *testing.T, err error, token, newest int64) {
	t.Helper()
	var stale *StaleError
	if !errors.As(err, &stale) || !errors.Is(err, ErrStale) || stale.Token != token || stale.Newest != newest {
		t.Errorf("error %v, want a *StaleError of token %d after %d", err, token, newest)
	}
}

func TestMemoryRefusesOlderTokens(t *testing.T) {
	var m Memory
	for _, tt := range []struct {
		resource      string
		token, newest int64
		ok            bool
	}{
		{"a", 5, 5, true},
		{"a", 5, 5, true}, // the same holder
		{"a", 4, 5, false},
		{"a", 7, 7, true},
		{"a", 5, 7, false},
		{"b", 1, 1, true}, // resources have nothing to do with each other
		{"a", 7, 7, true},
	} {
		ran := false
		err := m.Do(t.Context(), Claim{tt.resource, tt.token}, func(context.Context) error { ran = true; return nil })
		if ran != tt.ok {
			t.Fatalf("%s with %d: ran %v, want %v", tt.resource, tt.token, ran, tt.ok)
		}
		if tt.ok && err != nil {
			t.Fatalf("%s with %d: %v", tt.resource, tt.token, err)
		}
		if !tt.ok {
			wantStale(t, err, tt.token, tt.newest)
		}
		if n := m.Newest(tt.resource); n != tt.newest {
			t.Fatalf("newest of %s is %d, want %d", tt.resource, n, tt.newest)
		}
	}
	if n := m.Newest("nobody's"); n != 0 {
		t.Errorf("newest of what was never seen: %d", n)
	}
}

func TestMemoryReturnsTheErrorOfTheWork(t *testing.T) {
	var m Memory
	broken := errors.New("broken")
	if err := m.Do(t.Context(), Claim{"a", 1}, func(context.Context) error { return broken }); err != broken {
		t.Errorf("Do = %v, want the error of its function", err)
	}
	func() {
		defer func() { recover() }()
		m.Do(t.Context(), Claim{"a", 1}, func(context.Context) error { panic("work") })
	}()
	if err := m.Do(t.Context(), Claim{"a", 2}, nothing); err != nil { // would wait for ever if it had not left
		t.Errorf("after a panic: %v", err)
	}
}

// A writer that was let in and then paused has written before the next holder begins, or learns that it
// may not. F19, within the resource.
func TestMemoryNewerWaitsForOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for range 2 { // of one holder, side by side
			wg.Go(func() {
				m.Do(t.Context(), Claim{"a", 1}, func(ctx context.Context) error {
					<-ctx.Done()
					wantStale(t, context.Cause(ctx), 1, 2)
					time.Sleep(time.Minute) // to come to an end takes a while
					mu.Lock()
					defer mu.Unlock()
					order = append(order, "old")
					return nil
				})
			})
			synctest.Wait()
		}
		began := time.Now()
		if err := m.Do(t.Context(), Claim{"a", 2}, func(context.Context) error { order = append(order, "new"); return nil }); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != time.Minute || fmt.Sprint(order) != "[old old new]" {
			t.Errorf("%v after %v, want the old ones first", order, d)
		}
		wg.Wait()
	})
}

// One that waits for older work is itself overtaken, or gives up: it is not run, and its token counts.
func TestMemoryWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		leave := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { m.Do(t.Context(), Claim{"a", 1}, func(context.Context) error { <-leave; return nil }) })
		synctest.Wait()
		wrong := func(context.Context) error { t.Error("ran beside older work"); return nil }

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Do(ctx, Claim{"a", 2}, wrong); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do = %v, want that its time is over", err)
		}
		wg.Go(func() { wantStale(t, m.Do(t.Context(), Claim{"a", 3}, wrong), 3, 4) })
		synctest.Wait()
		wg.Go(func() {
			if err := m.Do(t.Context(), Claim{"a", 4}, nothing); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		wantStale(t, m.Do(t.Context(), Claim{"a", 2}, wrong), 2, 4)
		close(leave)
		wg.Wait()
	})
}

func TestMemoryIsBounded(t *testing.T) {
	m := Memory{ResourcesMax: 2}
	for _, tt := range []struct {
		resource string
		want     error
	}{{"a", nil}, {"b", nil}, {"c", ErrFull}, {"a", nil}} {
		if err := m.Do(t.Context(), Claim{tt.resource, 1}, nothing); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.resource, err, tt.want)
		}
	}
	if err := m.Do(t.Context(), Claim{"", 1}, nothing); !errors.Is(err, ErrInvalid) {
		t.Errorf("no name: %v, want ErrInvalid", err)
	}
}

// However many are under way with one token, and wait for an older one to leave, each costs as much as the first.
func BenchmarkMemoryOfManyAtOnce(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var m Memory
			for token := int64(1); b.Loop(); token += 2 {
				older, leave := make(chan struct{}), make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					m.Do(b.Context(), Claim{"a", token}, func(context.Context) error { close(older); <-leave; return nil })
				})
				<-older
				var entered sync.WaitGroup
				for range n {
					entered.Add(1)
					wg.Go(func() {
						entered.Done()
						m.Do(b.Context(), Claim{"a", token + 1}, nothing)
					})
				}
				entered.Wait()
				close(leave)
				wg.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/visit")
		})
	}
}

// Many writers with random tokens: no two tokens are inside together, no token is
// accepted after a higher one, and a holder that is refused was overtaken.
func TestMemoryManyWriters(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var m Memory
	var state struct {
		sync.Mutex
		inside  map[int64]int
		highest int64
	}
	state.inside = map[int64]int{}
	var wg sync.WaitGroup
	for w := range 32 {
		rng := rand.New(rand.NewPCG(seed, uint64(w)))
		wg.Go(func() {
			for i := range 200 {
				token := int64(i + 1 + rng.IntN(20))
				err := m.Do(t.Context(), Claim{"a", token}, func(context.Context) error {
					state.Lock()
					state.inside[token]++
					if len(state.inside) > 1 || token < state.highest {
						t.Errorf("%d entered after %d, inside: %v", token, state.highest, state.inside)
					}
					state.highest = max(state.highest, token)
					state.Unlock()
					if rng.IntN(4) == 0 {
						time.Sleep(time.Microsecond)
					}
					state.Lock()
					defer state.Unlock()
					state.inside[token]--
					if state.inside[token] == 0 {
						delete(state.inside, token)
					}
					return nil
				})
				var stale *StaleError
				if err != nil && (!errors.As(err, &stale) || stale.Newest <= token) {
					t.Errorf("token %d: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
}
