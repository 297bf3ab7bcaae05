package crash

import "testing"

func TestJudge(t *testing.T) {
	known := map[string]node{"/a": {"x", 1, 0}, "/b": {"y", 0, 0}, "/e": {"", 0, 7}}
	both := change{"/a": {"z", 2, 0}, "/b": nil}
	with := func(c change) map[string]node { return apply(known, c) }
	for _, tt := range []struct {
		name       string
		unanswered change
		found      map[string]node
		gone       int64 // the session whose znodes may be missing
		faults     int
		happened   bool
	}{
		{"nothing new", nil, with(nil), 0, 0, false},
		{"lost", nil, with(change{"/a": nil}), 0, 1, false},
		{"old version", nil, with(change{"/a": {"x", 0, 0}}), 0, 1, false},
		{"deleted is back", nil, with(change{"/c": {}}), 0, 1, false},
		{"ephemeral of a live session lost", nil, with(change{"/e": nil}), 0, 1, false},
		{"ephemeral of a dead session gone", nil, with(change{"/e": nil}), 7, 0, false},
		{"unanswered, not happened", both, with(nil), 0, 0, false},
		{"unanswered, happened", both, with(both), 0, 0, true},
		{"unanswered, happened, ephemeral gone", both, apply(with(both), change{"/e": nil}), 7, 0, true},
		{"unanswered, half there", both, with(change{"/a": {"z", 2, 0}}), 0, 1, false},
		{"unanswered, half deleted", both, with(change{"/b": nil}), 0, 1, false},
		{"unanswered, and something else lost", both, apply(with(both), change{"/e": nil}), 0, 3, false},
	} {
		m := memory{nodes: known, unanswered: tt.unanswered}
		faults, happened := m.judge(tt.found, func(owner int64) bool { return owner == tt.gone })
		if len(faults) != tt.faults || happened != tt.happened {
			t.Errorf("%s: faults %q, happened %v; want %d, %v", tt.name, faults, happened, tt.faults, tt.happened)
		}
		if again, _ := m.judge(tt.found, func(int64) bool { return false }); len(again) != 0 {
			t.Errorf("%s: found the same again: %q", tt.name, again)
		}
	}
}
