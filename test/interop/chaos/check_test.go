package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// written are the lines of one client that holds the lock once, from 10 to 40, and writes 7 over base.
func written(token, begin, base, value int64) []event {
	return []event{
		{Kind: granted, Key: "/a", Token: token, Call: begin + 1, At: begin + 10},
		{Kind: read, Key: "/a", Token: token, Alive: begin + 11, At: begin + 12},
		{Kind: did, Key: "/a", Token: token, Value: base, At: begin + 13},
		{Kind: write, Key: "/a", Token: token, Alive: begin + 20, At: begin + 21, Base: base, Value: value},
		{Kind: did, Key: "/a", Token: token, Value: value, At: begin + 22},
		{Kind: ended, Key: "/a", Token: token, Alive: begin + 30, At: begin + 40},
	}
}

func TestJudge(t *testing.T) {
	// change returns the second client's lines, changed.
	change := func(f func(events []event) []event) [][]event {
		return [][]event{written(1, 0, 0, 7), f(written(2, 100, 7, 8))}
	}
	for _, tt := range []struct {
		name    string
		clients [][]event
		want    []string // a part of each violation
	}{
		{"nothing", nil, nil},
		{"one after another", [][]event{written(1, 0, 0, 7), written(2, 100, 7, 8)}, nil},
		{"two holds at once", [][]event{written(1, 0, 0, 7), {
			{Kind: granted, Key: "/a", Token: 2, Call: 5, At: 25},
			{Kind: ended, Key: "/a", Token: 2, Alive: 35, At: 60},
		}}, []string{"valid for 5ns beside", "lock of /a"}},
		{"another lock", [][]event{written(1, 0, 0, 7), {
			{Kind: granted, Key: "/b", Token: 2, Call: 5, At: 25},
			{Kind: ended, Key: "/b", Token: 2, Alive: 35, At: 60},
		}}, nil},
		{"a third one within the first, which a second one followed", [][]event{
			{{Kind: granted, Key: "/a", Token: 1, Call: 1, At: 10}, {Kind: alive, Key: "/a", Token: 1, Alive: 90, At: 91}},
			{{Kind: granted, Key: "/a", Token: 2, Call: 1, At: 20}, {Kind: ended, Key: "/a", Token: 2, Alive: 30, At: 31}},
			{{Kind: granted, Key: "/a", Token: 3, Call: 1, At: 40}, {Kind: ended, Key: "/a", Token: 3, Alive: 50, At: 51}},
		}, []string{"token 0x1 was valid for 10ns beside the one with token 0x2", "token 0x1 was valid for 10ns beside the one with token 0x3", "lock of /a"}},
		{"granted beside a process that was frozen, which then finds its hold lost", [][]event{
			{{Kind: granted, Key: "/a", Token: 1, Call: 1, At: 10}, {Kind: ended, Key: "/a", Token: 1, Alive: 20, At: 500, Lost: true}},
			{{Kind: granted, Key: "/a", Token: 2, Call: 1, At: 100}, {Kind: ended, Key: "/a", Token: 2, Alive: 110, At: 120}},
		}, nil},
		{"granted beside a process that was frozen before it could say that it has the lock, and finds it lost", [][]event{
			{{Kind: granted, Key: "/a", Token: 1, Call: 1, At: 150}, {Kind: ended, Key: "/a", Token: 1, Alive: 149, At: 160, Lost: true}},
			{{Kind: granted, Key: "/a", Token: 2, Call: 1, At: 100}, {Kind: ended, Key: "/a", Token: 2, Alive: 200, At: 210}},
		}, nil},
		{"granted beside a process that was frozen, and finds its hold valid", [][]event{
			{{Kind: granted, Key: "/a", Token: 1, Call: 1, At: 150}, {Kind: ended, Key: "/a", Token: 1, Alive: 151, At: 160}},
			{{Kind: granted, Key: "/a", Token: 2, Call: 1, At: 100}, {Kind: ended, Key: "/a", Token: 2, Alive: 200, At: 210}},
		}, []string{"valid for 1ns beside", "lock of /a"}},
		{"killed while it held", [][]event{written(1, 0, 0, 7)[:5], written(2, 100, 7, 8)}, nil},
		{"killed while it wrote, in vain", [][]event{written(1, 0, 0, 7)[:4], written(2, 100, 0, 8)}, nil},
		{"killed while it wrote", [][]event{written(1, 0, 0, 7)[:4], written(2, 100, 7, 8)}, nil},
		{"killed while it read, which counts", [][]event{
			written(2, 0, 0, 7)[:2],
			{{Kind: granted, Key: "/b", Token: 1, At: 1}, // of another lock: it stands for a stale token
				{Kind: write, Key: "/a", Token: 1, At: 50, Value: 9}, {Kind: did, Key: "/a", Token: 1, At: 60, Stale: true}},
		}, nil},
		{"tokens that do not grow", [][]event{written(2, 0, 0, 7), {
			{Kind: granted, Key: "/a", Token: 1, Call: 101, At: 110},
			{Kind: ended, Key: "/a", Token: 1, Alive: 130, At: 140},
		}}, []string{"lock of /a"}},
		{"the same token twice", [][]event{written(1, 0, 0, 7)[:1], {
			{Kind: granted, Key: "/a", Token: 1, Call: 101, At: 110},
			{Kind: ended, Key: "/a", Token: 1, Alive: 130, At: 140},
		}}, []string{"lock of /a"}},
		{"a lost update", change(func(e []event) []event { e[2].Value, e[3].Base = 0, 0; return e }), []string{"register of /a"}},
		{"a refusal without reason", change(func(e []event) []event { e[4].Stale = true; return e }), []string{"register of /a"}},
		{"a late write that is taken", [][]event{
			append(written(1, 0, 0, 7), event{Kind: write, Key: "/a", Token: 1, At: 150, Base: 8, Value: 9}, event{Kind: did, Key: "/a", Token: 1, Value: 9, At: 151}),
			written(2, 100, 7, 8),
		}, []string{"register of /a"}},
		{"a late write that is refused", [][]event{
			append(written(1, 0, 0, 7), event{Kind: write, Key: "/a", Token: 1, At: 150, Base: 8, Value: 9}, event{Kind: did, Key: "/a", Token: 1, Stale: true, At: 151}),
			written(2, 100, 7, 8),
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &history{}
			for i, events := range tt.clients {
				h.add(i, events)
			}
			folder := t.TempDir()
			got := judge(t, h, folder, "x")
			if len(got) != len(tt.want) {
				t.Fatalf("violations: %q, want %q", got, tt.want)
			}
			drawn := 0
			for i, v := range got {
				if !strings.Contains(v, tt.want[i]) {
					t.Errorf("violation %q, want %q", v, tt.want[i])
				}
				if strings.HasPrefix(tt.want[i], "lock of") || strings.HasPrefix(tt.want[i], "register of") {
					drawn++
				}
			}
			if files, _ := filepath.Glob(filepath.Join(folder, "*.html")); len(files) != drawn {
				t.Errorf("%d drawings, want %d", len(files), drawn)
			} else if drawn > 0 {
				if b, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(b), "grant of") && !strings.Contains(string(b), "write") {
					t.Errorf("the drawing shows no operations: %v", err)
				}
			}
		})
	}
}

func TestLongestGap(t *testing.T) {
	h := &history{}
	for _, at := range []int64{10, 20, 70} {
		h.holds = append(h.holds, hold{key: "/chaos/a-1", granted: at}, hold{key: "/chaos/b-2", granted: at / 10})
	}
	if d := h.longestGap(0, 80, keyOf); d != 73*time.Nanosecond {
		t.Errorf("longest gap %v, want that after the last grant of b", d)
	}
}

// The models' descriptions are what a person has when a history fails.
func TestDescriptions(t *testing.T) {
	var all []string
	for _, in := range []any{lockInput{false, 16}, lockInput{true, 16}} {
		all = append(all, lockModel.DescribeOperation(in, nil))
	}
	for _, o := range []operation{{kind: read, token: 16, value: 1}, {kind: write, token: 16, stale: true}, {kind: write, token: 16, answer: forever}} {
		all = append(all, registerModel.DescribeOperation(o, nil))
	}
	const want = "grant of 0x10, end of 0x10, read 0x1 with 0x10, write 0x0 with 0x10: stale, write 0x0 with 0x10: no answer"
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
