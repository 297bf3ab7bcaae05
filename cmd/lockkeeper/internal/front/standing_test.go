package front

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

func TestAStandingEndsWithTheDeadline(t *testing.T) {
	cell, err := link.NewCell()
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close()
	plan := link.Plan{Margin: time.Second}
	var s Standing
	holds := func(want bool) {
		t.Helper()
		if token, left := s.Holds(); (left > 0) != want || (token == 7) != want {
			t.Errorf("holds token %d for %v; want it held: %v", token, left, want)
		}
	}
	holds(false)
	cell.Store(link.Now())
	s.begin(cell, plan, 7)
	holds(false) // the deadline is over
	cell.Store(link.Now().Add(time.Minute))
	holds(true)
	cell.Store(link.Now().Add(plan.Margin)) // the child is dead by now
	holds(false)
	cell.Store(link.Now().Add(time.Minute))
	holds(true)
	s.end()
	holds(false)
	s.waits("worker (pid 1 on a)")
	if got := s.Holder(); got != "worker (pid 1 on a)" {
		t.Errorf("waits for %q", got)
	}
	s.seen = s.seen.Add(-holderFresh - time.Second)
	if got := s.Holder(); got != "" {
		t.Errorf("waits for %q, which is old", got)
	}
	var none *Standing
	none.begin(cell, plan, 7)
	none.waits("x")
	none.end()
}
