package waitgraph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A long queue is looked through in no time, for each claim in it: also if each of them holds something.
func TestSurveyOfALongLine(t *testing.T) {
	v := NewReader(t.Context(), nil, nil)
	const n = 1000
	long := &readQueue{queue: &queue.ReadQueue{}}
	var of []*queue.Entry
	for i := range n {
		name := newID().Prefix(queue.LockWord) + fmt.Sprintf("%010d", i)
		held := fmt.Sprintf("/of/%d", i)
		long.queue.Queue.Claims = append(long.queue.Queue.Claims, queue.Claim{Number: int32(i), Kind: queue.Exclusive, Name: name})
		of = append(of, &queue.Entry{HoldID: queue.HoldIDOf("/long", name), Dir: "/long", Under: []string{held + "/it"}, Contender: queue.Contender{Token: int64(i)}})
		v.queues[held] = &readQueue{queue: &queue.ReadQueue{}}
	}
	long.queue = queue.NewReadQueue(long.queue.Queue, of)
	v.queues["/long"] = long
	began := time.Now()
	if found, err := v.cycles([]string{"/long"}); len(found) > 0 || err != nil {
		t.Errorf("cycles: %d, %v", len(found), err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("that took %v", d)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	v.ctx = ended
	if _, err := v.cycles([]string{"/long"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cycles with a context that has ended: %v, want its error", err)
	}
}

// A second look counts only what the first has seen, as it was.
func TestSurveyCountsWhatWasThereBefore(t *testing.T) {
	line := func(permits permitFacts, nodes map[string]int64) *readQueue {
		l := &readQueue{permits: permits, mzxid: nodes}
		q, of := queue.Queue{Permits: permits.n}, []*queue.Entry(nil)
		for i, name := range []string{"a", "b", "c"} {
			if nodes[name] != 0 {
				q.Claims = append(q.Claims, queue.Claim{Number: int32(i), Kind: queue.Permit, Name: name})
				of = append(of, &queue.Entry{HoldID: "/l/" + name, Dir: "/l"})
			}
		}
		l.queue = queue.NewReadQueue(q, of)
		return l
	}
	same := permitFacts{n: 2, czxid: 7}
	for _, c := range []struct {
		what        string
		before      *readQueue
		permits     permitFacts
		now         map[string]int64
		want        []string
		wantPermits int
	}{
		{"nothing has changed", line(same, map[string]int64{"a": 1, "b": 2}), same, map[string]int64{"a": 1, "b": 2}, []string{"a", "b"}, 2},
		{"one came", line(same, map[string]int64{"b": 2}), same, map[string]int64{"a": 1, "b": 2}, []string{"b"}, 2},
		{"one left", line(same, map[string]int64{"a": 1, "b": 2}), same, map[string]int64{"b": 2}, []string{"b"}, 2},
		{"one was written to", line(same, map[string]int64{"a": 1, "b": 2}), same, map[string]int64{"a": 1, "b": 3}, []string{"a"}, 2},
		{"another number", line(permitFacts{3, 7}, map[string]int64{"a": 1}), same, map[string]int64{"a": 1}, []string{"a"}, 0},
		{"another directory", line(permitFacts{2, 8}, map[string]int64{"a": 1}), same, map[string]int64{"a": 1}, []string{"a"}, 0},
		{"a queue that was not read", nil, same, map[string]int64{"a": 1}, nil, 0},
	} {
		l := line(c.permits, c.now)
		l.keepOnly(c.before)
		if got := l.queue.Queue.Names(); !slices.Equal(got, c.want) || l.queue.Queue.Permits != c.wantPermits {
			t.Errorf("%s: %v and %d permits count, want %v and %d", c.what, got, l.queue.Queue.Permits, c.want, c.wantPermits)
		}
	}
}
