package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A connection that has ended while it waited for memory takes none. Hundreds of them, each with a megabyte to read that no
// request would come of, kept other clients waiting for 100 ms and more.
func TestAReservationOfAnEndedConnectionTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		if !b.reserve(100, nil, nil) {
			t.Fatal("an empty budget has no room")
		}
		var ended atomic.Bool
		first, second := make(chan bool, 1), make(chan bool, 1)
		go func() { first <- b.reserve(60, func() {}, ended.Load) }()
		synctest.Wait()
		go func() { second <- b.reserve(60, func() {}, func() bool { return false }) }()
		synctest.Wait()
		ended.Store(true)
		b.add(-100)
		if <-first {
			t.Error("the connection that had ended was granted its bytes")
		}
		if !<-second {
			t.Error("the one behind it was not")
		}
		if used := b.used.Load(); used != 60 {
			t.Errorf("%d bytes are in use, want 60", used)
		}
	})
}

// A connection that ends while nothing becomes free is noticed, and small reservations do not wait for a large one.
func TestReservationsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		b.add(90)
		began := time.Now()
		large := make(chan bool, 1)
		go func() {
			large <- b.reserve(80, func() {}, func() bool { return time.Since(began) > time.Second })
		}()
		synctest.Wait()
		if !b.reserve(10, nil, nil) {
			t.Error("what fits has to wait")
		}
		if <-large {
			t.Error("80 of 100 bytes were granted beside 100")
		}
		if used, waiting := b.used.Load(), b.waiters.Load(); used != 100 || waiting != 0 || len(b.waiting) != 0 {
			t.Errorf("%d bytes in use and %d waiting, want 100 and none", used, waiting)
		}
	})
}
