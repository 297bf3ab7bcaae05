package locksuite

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
)

// Whichever of N holders leaves, one waiter is granted. Woken are as many as the place that the one that leaves had
// among the holders, the oldest being the first: 1 to N, which is as few as can be (waitForPermits in lock/internal/queue).
func f34Woken(w *World, t *testing.T) {
	const permits, waiters = 4, 6
	for place := range permits {
		held, clients, waits := w.crowd(permits, waiters)
		w.Quiet(clients...)
		marks := make([]faultproxy.Mark, waiters)
		for i, c := range clients {
			marks[i] = c.Proxy.Mark()
		}
		w.MustRelease(held[place])
		held[place] = waits[0].Granted()
		w.Quiet(clients...)
		for i, c := range clients {
			asked, told := work(c.Proxy.Since(marks[i]))
			want, ops := 0, ""
			if i <= place {
				want = 1
			}
			if 0 < i && i <= place { // in vain
				ops = "children, get"
			}
			if len(told) != want || i > 0 && asked.Ops() != ops {
				t.Errorf("the holder at place %d left: waiter %d was told %d times, want %d, and asked %q, want %q", place, i, len(told), want, asked.Ops(), ops)
			}
		}
		w.stillPending("all permits are held", waits[1:]...)
		for line := waits[1:]; len(held) > 0; held = held[1:] {
			w.MustRelease(held[0])
			if len(line) > 0 {
				held, line = append(held, line[0].Granted()), line[1:]
			}
		}
		w.Clean()
	}
}

// What a waiter watches stays from one look to the next, but not beyond the wait; and what has fired is set again.
func f34WatchesStay(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	watches := func(when string, want int) {
		t.Helper()
		if w.server != nil {
			w.Within(time.Second, fmt.Sprintf("I4: %d watches %s", want, when), func() bool { return w.server.Stats().Watches == want })
		}
	}
	set := func(n int) {
		t.Helper()
		if err := setPermits(w.Context(), w.admin, w.dir, n); err != nil {
			t.Fatal(err)
		}
	}
	held := []*lock.Hold{must(w, a.Semaphore(2).Acquire), must(w, a.Semaphore(2).Acquire)}
	watches("before any contender waits", 2)
	next := ask(w, b.Semaphore(0).Acquire)
	w.stillPending("both permits are held", next)
	set(3)
	held = append(held, next.Granted())
	watches("granted because the number has grown", 3)

	refused := ask(w, acquire(c.Semaphore(0), 2))
	w.WaitQueue(5)
	w.Quiet(c)
	set(1)
	if _, err := refused.Outcome(); !isTooMany(err, 2, 1) {
		t.Errorf("2 of now 1 permits: %v", err)
	}
	w.WaitQueue(3)
	watches("refused because the number has shrunk", 3)

	last := ask(w, c.Semaphore(0).Acquire)
	w.WaitQueue(4)
	for _, n := range []int{2, 1, 2} { // those of a waiter are on so many claims, its own and the number
		set(n)
		w.Quiet(c)
		watches(fmt.Sprint("with a waiter for ", n), 3+n+2)
	}
	mark := c.Proxy.Mark()
	w.revoke(lock.Contender{Node: held[2].Node()})
	w.Within(patience, "the waiter has looked at what it is told of", func() bool {
		asked, _ := work(c.Proxy.Since(mark))
		return len(asked) >= 2
	})
	w.Quiet(c)
	asked, told := work(c.Proxy.Since(mark))
	if want := "children, get"; asked.Ops() != want || len(told) != 1 {
		t.Errorf("a waiter behind one that is asked to give up was told %d times and asked %q, want %q", len(told), asked.Ops(), want)
	}
	w.MustRelease(held[0])
	w.stillPending("two permits are held", last)
	w.MustRelease(held[2])
	w.MustRelease(last.Granted())
	w.MustRelease(held[1])
	w.Clean()
}
