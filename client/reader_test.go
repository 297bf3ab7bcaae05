package client

import (
	"errors"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// When the reader rests and when it reads again, step by step.
func TestWhenTheReaderRests(t *testing.T) {
	c := &conn{s: &Session{}}
	r := &c.turn
	answer := func(busy bool) bool {
		r.served = true
		c.s.mu.dependents = 0
		if busy {
			c.s.mu.dependents = 1
		}
		return c.yieldLocked()
	}
	for i := range aloneMin - 1 {
		if answer(false) {
			t.Fatalf("it rests after %d answers", i+1)
		}
	}
	if c.yieldLocked() {
		t.Fatal("it rests although no wait has ended")
	}
	if answer(true) || answer(false) {
		t.Fatal("it rests although others wait")
	}
	for range aloneMin - 2 {
		answer(false)
	}
	if !answer(false) || r.held != turnFree {
		t.Fatal("it does not rest although callers are alone")
	}

	call := func() { r.held, r.came = heldByCaller, true }
	leave := func() { r.held = turnFree }
	call()
	leave()
	if r.takeTurn(true, false) {
		t.Fatal("it reads although a caller has come since")
	}
	call()
	if r.takeTurn(true, true) || r.asleep {
		t.Fatal("it reads although a caller does, or no longer looks at one that has just come")
	}
	if r.takeTurn(true, true) || !r.asleep {
		t.Fatal("it reads although a caller does, or looks at one that reads and reads")
	}
	leave()
	if r.takeTurn(false, false) || r.asleep {
		t.Fatal("it does not look again after the caller has left")
	}
	if !r.takeTurn(true, false) || r.held != heldByReader {
		t.Fatal("it does not read although no caller comes")
	}
	if !answer(false) {
		t.Fatal("it does not rest at once when callers come again")
	}
	if !r.takeTurn(false, true) || answer(false) {
		t.Fatal("it does not read for a goroutine that depends on it, or rests at once again")
	}
}

// What an answer costs does not depend on how many requests are on their way behind it.
func TestAnswersToALongPipeline(t *testing.T) {
	const requests = 1 << 17
	s := &Session{}
	c := &conn{s: s}
	s.mu.conn = c
	answered := func(pipeline int) (took time.Duration) {
		for range requests / pipeline {
			for i := range pipeline {
				c.sent = append(c.sent, &call{op: wire.OpAuth, own: true, xid: int32(i + 1)})
			}
			began := time.Now()
			for i := range pipeline {
				if err := c.message((&wire.ReplyHeader{Xid: int32(i + 1)}).AppendTo(nil), nil); err != nil {
					t.Fatal(err)
				}
			}
			took += time.Since(began)
		}
		return took
	}
	var short, long time.Duration
	for range 5 { // the machine may be busy with something else during one of the two
		short, long = answered(64), answered(requests)
		if long <= 8*short {
			return
		}
	}
	t.Errorf("%d answers took %v, and %v in pipelines of 64", requests, long, short)
}

// A listing of megabytes takes a while to be decoded, and the ends of holds are told under the session's mutex.
func TestAnswersAreDecodedWithoutTheMutex(t *testing.T) {
	s := &Session{}
	c := &conn{s: s}
	s.mu.conn = c
	read := func(decode func(*wire.Decoder) error) *call {
		t.Helper()
		k := &call{op: wire.OpExists, xid: 1, decode: decode}
		k.s = s
		s.mu.inFlight++
		c.sent = append(c.sent, k)
		err := c.message((&wire.ReplyHeader{Xid: 1}).AppendTo(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !k.over || len(c.sent) > 0 {
			t.Fatalf("the call is over: %v; and %d others are on their way", k.over, len(c.sent))
		}
		return k
	}
	free := false
	k := read(func(*wire.Decoder) error {
		free = s.mu.TryLock()
		if free {
			s.mu.Unlock()
		}
		return nil
	})
	if !free || k.err != nil {
		t.Errorf("the mutex is free while an answer is decoded: %v; the error is %v", free, k.err)
	}

	k = read(func(*wire.Decoder) error { // and the session ends meanwhile
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.conn = nil
		s.failAllLocked(&c.sent, zk.ErrClosed)
		return nil
	})
	if !errors.Is(k.err, zk.ErrClosed) {
		t.Errorf("the error of a call whose session has ended is %v", k.err)
	}
}
