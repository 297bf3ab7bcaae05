package lock

import (
	"testing"
	"time"
)

func TestF17_Loan(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		timeout, age time.Duration
		left         time.Duration
		fresh        bool
		glance       time.Duration
	}{
		{timeout: 30 * s, age: 0, left: 20 * s, fresh: true, glance: s},
		{timeout: 30 * s, age: 10 * s, left: 10 * s, fresh: true, glance: s},
		{timeout: 30 * s, age: 10*s + 1, left: 10*s - 1, fresh: false, glance: s},
		{timeout: 30 * s, age: 20 * s, left: 0, fresh: false, glance: s},
		{timeout: 30 * s, age: time.Hour, left: 20*s - time.Hour, fresh: false, glance: s},
		{timeout: 3 * s, age: 500 * ms, left: 1500 * ms, fresh: true, glance: 500 * ms},
		{timeout: 3 * ms, age: 0, left: 2 * ms, fresh: true, glance: ms},
	} {
		l := loan{c.timeout}
		if got := l.left(c.age); got != c.left {
			t.Errorf("a loan of %v at %v: left %v, want %v", c.timeout, c.age, got, c.left)
		}
		if got := l.fresh(c.age); got != c.fresh {
			t.Errorf("a loan of %v at %v: fresh %v, want %v", c.timeout, c.age, got, c.fresh)
		}
		if got := l.glance(); got != c.glance {
			t.Errorf("a loan of %v: glance %v, want %v", c.timeout, got, c.glance)
		}
	}
}

// Whatever the timeout: a hold ends a third of it before the ensemble could free the lock, a heartbeat of
// every sixth that is answered keeps it, three of them may be lost in a row, and it never begins with
// less than half its term.
func TestF17_LoanProperties(t *testing.T) {
	for timeout := 6 * time.Millisecond; timeout < 24*time.Hour; timeout = timeout*3/2 + 1 {
		l := loan{timeout}
		if safe := timeout - l.term(); safe < timeout/3 {
			t.Errorf("a loan of %v ends only %v before the session", timeout, safe)
		}
		if beat := timeout / 6; l.left(3*beat) <= 0 {
			t.Errorf("a loan of %v does not survive two lost heartbeats", timeout)
		}
		for age := time.Duration(0); age <= timeout; age += timeout/50 + 1 {
			if l.fresh(age) && l.left(age) < l.term()/2 {
				t.Errorf("a loan of %v may begin at %v, with %v left", timeout, age, l.left(age))
			}
		}
		if g := l.glance(); g > timeout/6 || g > time.Second {
			t.Errorf("a loan of %v is looked at every %v only", timeout, g)
		}
	}
}
