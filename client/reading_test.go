package client

import "testing"

// When the reader rests and when it reads again, step by step.
func TestWhenTheReaderRests(t *testing.T) {
	r := newReading()
	answer := func(busy bool) bool { r.served = true; return r.restsNow(busy) }
	for i := range aloneMin - 1 {
		if answer(false) {
			t.Fatalf("it rests after %d answers", i+1)
		}
	}
	if r.restsNow(false) {
		t.Fatal("it rests although nobody was served")
	}
	if answer(true) || answer(false) {
		t.Fatal("it rests although others wait")
	}
	for range aloneMin - 2 {
		answer(false)
	}
	if !answer(false) || r.who != nobody {
		t.Fatal("it does not rest although callers are alone")
	}

	call := func() { r.who = aCaller; r.turn++ }
	leave := func() { r.who = nobody }
	call()
	leave()
	if r.readsNow(true, false) {
		t.Fatal("it reads although a caller has come since")
	}
	call()
	for range sleepTicks + 1 {
		if r.readsNow(true, true) {
			t.Fatal("it reads although a caller does")
		}
	}
	if !r.asleep() {
		t.Fatal("it looks at a caller who reads and reads")
	}
	leave()
	if r.readsNow(false, false) || r.asleep() {
		t.Fatal("it does not look again after he has left")
	}
	if !r.readsNow(true, false) || r.who != theReader {
		t.Fatal("it does not read although nobody comes")
	}
	if !answer(false) {
		t.Fatal("it does not rest at once when callers come again")
	}
	if !r.readsNow(false, true) || answer(false) {
		t.Fatal("it does not read for somebody who depends on it, or rests at once again")
	}
}
