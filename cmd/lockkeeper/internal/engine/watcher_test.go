package engine

import (
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/lock"
)

// What others say of themselves moves no cursor, and is not too much for a note.
func TestDescribe(t *testing.T) {
	long := strings.Repeat("ü", 1<<20)
	for _, c := range []struct {
		owner lock.Owner
		want  string
	}{
		{lock.Owner{Label: "a\x1b[2J\nb\u009b", PID: 7, Host: "h\r"}, "a?[2J?b? (pid 7 on h?)"},
		{lock.Owner{Program: "p\x07", PID: 7}, "p? pid 7"},
		{lock.Owner{Label: long, PID: 7, Host: "h"}, long[:2*(shownMax-1)] + "… (pid 7 on h)"},
	} {
		if got := Describe(lock.Contender{Node: "/n", Owner: c.owner}); got != c.want {
			t.Errorf("Describe of %.40q = %.80q, want %.80q", c.owner.Label, got, c.want)
		}
	}
}
