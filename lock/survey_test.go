package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A long line is looked through in no time, for every one who stands in it: also if each of them holds something.
func TestSurveyOfALongLine(t *testing.T) {
	v := newSurvey(t.Context(), nil, nil)
	const n = 1000
	long := &surveyed{lineup: &lineup{}}
	var of []*party
	for i := range n {
		name := newAttemptID().prefix(lockWord) + fmt.Sprintf("%010d", i)
		held := fmt.Sprintf("/of/%d", i)
		long.lineup.queue.add(name, int32(i), exclusive)
		of = append(of, &party{stem: stemOf("/long", name), dir: "/long", czxid: int64(i), under: []string{held + "/it"}})
		v.lines[held] = &surveyed{lineup: &lineup{}}
	}
	long.lineup = newLineup(long.lineup.queue, of)
	v.lines["/long"] = long
	began := time.Now()
	if found, err := v.circles([]string{"/long"}); len(found) > 0 || err != nil {
		t.Errorf("circles: %d, %v", len(found), err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("that took %v", d)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	v.ctx = ended
	if _, err := v.circles([]string{"/long"}); !errors.Is(err, context.Canceled) {
		t.Errorf("circles with a context that has ended: %v, want its error", err)
	}
}

// A second look counts only what the first has seen, as it was.
func TestSurveyCountsWhatWasThereBefore(t *testing.T) {
	line := func(room roomFacts, nodes map[string]int64) *surveyed {
		l := &surveyed{room: room, mzxid: nodes}
		q, of := queue{room: room.n}, []*party(nil)
		for i, name := range []string{"a", "b", "c"} {
			if nodes[name] != 0 {
				q.add(name, int32(i), permit)
				of = append(of, &party{stem: "/l/" + name, dir: "/l"})
			}
		}
		l.lineup = newLineup(q, of)
		return l
	}
	same := roomFacts{n: 2, czxid: 7}
	for _, c := range []struct {
		what     string
		before   *surveyed
		room     roomFacts
		now      map[string]int64
		want     []string
		wantRoom int
	}{
		{"nothing has changed", line(same, map[string]int64{"a": 1, "b": 2}), same, map[string]int64{"a": 1, "b": 2}, []string{"a", "b"}, 2},
		{"somebody came", line(same, map[string]int64{"b": 2}), same, map[string]int64{"a": 1, "b": 2}, []string{"b"}, 2},
		{"somebody left", line(same, map[string]int64{"a": 1, "b": 2}), same, map[string]int64{"b": 2}, []string{"b"}, 2},
		{"somebody was written to", line(same, map[string]int64{"a": 1, "b": 2}), same, map[string]int64{"a": 1, "b": 3}, []string{"a"}, 2},
		{"another number", line(roomFacts{3, 7}, map[string]int64{"a": 1}), same, map[string]int64{"a": 1}, []string{"a"}, 0},
		{"another directory", line(roomFacts{2, 8}, map[string]int64{"a": 1}), same, map[string]int64{"a": 1}, []string{"a"}, 0},
		{"a line that was not read", nil, same, map[string]int64{"a": 1}, nil, 0},
	} {
		l := line(c.room, c.now)
		l.only(c.before)
		if got := l.lineup.queue.inOrder(); !slices.Equal(got, c.want) || l.lineup.queue.room != c.wantRoom {
			t.Errorf("%s: %v and a room of %d count, want %v and %d", c.what, got, l.lineup.queue.room, c.want, c.wantRoom)
		}
	}
}
