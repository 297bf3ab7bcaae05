package locksuite

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
)

// What readers with a delay leave behind where nobody writes.
var sealTests = []test{
	{"Delay_ReadersForEver", sealsForEver},
	{"Delay_ReadersAtOnce", sealsAtOnce},
	{"Delay_ReadersShortenNothing", sealsShortenNothing},
}

// sealServerTests take hours.
var sealServerTests = []test{
	{"Delay_ReadersInTheEnd", sealsInTheEnd},
}

// reader returns the world's lock with a delay, as readers of a client see it.
func (c *Client) reader(delay time.Duration) *lock.RWMutex {
	return c.RWMutexAt(c.w.dir, lock.Options{Delay: delay})
}

// loseReaders has readers of so many clients hold the lock together, and ends their sessions.
func (w *World) loseReaders(n int, delay time.Duration) {
	w.t.Helper()
	clients := make([]*Client, n)
	for i := range clients {
		clients[i] = w.Client(fmt.Sprint("lost", i))
		must(w, clients[i].reader(delay).RLock)
	}
	for _, c := range clients {
		w.Expire(c.Session)
	}
	w.Within(patience, "the lost readers' claims are gone", func() bool { return len(w.Line()) == len(w.Seals()) })
}

// Readers come and end uncleanly, and nobody ever writes. What they leave does not grow, and the longest of
// their delays is kept when somebody does, whichever it was.
func sealsForEver(w *World, t *testing.T) {
	b, c := w.Client("b"), w.Client("c")
	lost := w.reps(20, 4)
	for _, longest := range []int{0, lost - 1} {
		for i := range lost {
			if i == longest {
				w.loseReaders(1, 2*w.delay())
			} else {
				w.loseReaders(1, w.delay())
			}
			h := w.keptNone("a reader", ask(w, b.reader(w.delay()).RLock), time.Now())
			if n := len(w.Seals()); n != 2 {
				t.Fatalf("%d seals after %d lost readers, want the one that reads and one more", n, i+1)
			}
			w.MustRelease(h)
		}
		began := time.Now()
		h := must(w, c.reader(w.delay()).Lock)
		if d := time.Since(began); d < 2*w.delay() || w.Virtual && d > 2*w.delay()+time.Second {
			t.Errorf("a writer was granted after %v, the longest delay is %v", d, 2*w.delay())
		}
		w.MustRelease(h)
		w.Clean()
	}
}

// Many readers at once find what many have left. One seal is made of it, not one by each of them.
func sealsAtOnce(w *World, t *testing.T) {
	const lost, readers = 8, 6
	w.loseReaders(lost, w.delay())
	if n := len(w.Seals()); n != lost {
		t.Fatalf("%d seals of %d lost readers", n, lost)
	}
	var locks []*lock.RWMutex
	for i := range readers {
		locks = append(locks, w.Client(fmt.Sprint("reader", i)).reader(w.delay()))
	}
	w.slow()
	var waits []*Grant
	for _, m := range locks {
		waits = append(waits, ask(w, m.RLock))
	}
	var held []*lock.Hold
	for _, g := range waits {
		held = append(held, g.Granted())
	}
	if n := len(w.Seals()); n != readers+1 {
		t.Errorf("%d seals with %d readers, want one of each and one more", n, readers)
	}
	for _, h := range held {
		w.MustRelease(h)
	}
	w.MustRelease(must(w, w.Client("writer").reader(w.delay()).Lock))
	w.Clean()
}

// A writer that has known one seal for a while, and to which another is new, waits for that one's delay, whatever
// readers have made of both meanwhile.
func sealsShortenNothing(w *World, t *testing.T) {
	b, c := w.Client("b"), w.Client("c")
	m := c.reader(w.delay())
	try := func() *lock.BusyError {
		h, err := m.TryLock(w.Context())
		var busy *lock.BusyError
		if !errors.As(err, &busy) || busy.Delay == 0 {
			t.Fatalf("TryLock = %v, %v, want that there is a delay", h, err)
		}
		return busy
	}
	w.loseReaders(1, w.delay())
	try()
	time.Sleep(w.delay() * 3 / 4)
	began := time.Now()
	w.loseReaders(1, w.delay())
	w.MustRelease(must(w, b.reader(w.delay()).RLock))
	if n := len(w.Seals()); n != 1 {
		t.Fatalf("%d seals, want 1", n)
	}
	if left := try().Delay; left < w.delay()*3/4 {
		t.Errorf("%v are left of a delay of %v that has just begun", left, w.delay())
	}
	w.MustRelease(w.keptDelay("a writer who tried before", ask(w, m.Lock), began))
	w.Clean()
}

// What no writer has to wait for any more is deleted by a reader that has known it for the longest delay there
// is, and not before.
func sealsInTheEnd(w *World, t *testing.T) {
	m := w.Client("b").reader(w.delay())
	read := func() int {
		h := must(w, m.RLock)
		defer w.MustRelease(h)
		return len(w.Seals()) - 1
	}
	w.loseReaders(3, lock.DelayMax)
	for range 2 {
		if n := read(); n != 1 {
			t.Fatalf("%d seals that are nobody's, want 1", n)
		}
	}
	time.Sleep(lock.DelayMax - time.Second)
	if n := read(); n != 1 {
		t.Fatalf("%d seals that are nobody's before the delay is over, want 1", n)
	}
	time.Sleep(2 * time.Second)
	if n := read(); n != 0 {
		t.Errorf("%d seals that are nobody's when no delay is left", n)
	}
	w.Clean()
}
