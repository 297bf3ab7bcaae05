package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	got := wrap("four\nlonger line\n\nfünf\nunended", 6)
	if want := []string{"four", "longer", " line", "", "fünf", "unende", "d"}; !slices.Equal(got, want) {
		t.Errorf("wrapped to %q, want %q", got, want)
	}
}

// A list that is longer than the terminal is seen in parts, and keys go from one to the next.
func TestAWatchOfManyLocksScrolls(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	var locks []string
	for i := range 40 {
		locks = append(locks, fmt.Sprintf("many-%02d", i))
	}
	holder := h.start(append(append([]string{"run"}, locks...), "--", "sh", "-c", stay)...)
	holder.see("up")
	h.shellOn(x)
	x.Type("$LK locks --watch\n")
	if shown := x.WaitFor("rows 1 to 21 of 40; arrows"); !strings.Contains(shown, "LABEL") || !strings.Contains(shown, "many-20") || strings.Contains(shown, "many-21") {
		t.Errorf("the first rows are %q", shown)
	}
	x.Type("jj\x1b[A")
	x.WaitFor("rows 2 to 22 of 40")
	x.Type("\x1b[6~")
	if shown := x.WaitFor("rows 20 to 40 of 40"); !strings.Contains(shown, "LABEL") || !strings.Contains(shown, "many-39") {
		t.Errorf("the last rows are %q", shown)
	}
	x.Type("\x1b[H")
	x.WaitFor("rows 1 to 21 of 40")
	x.Type("\x1a")
	x.WaitFor("Stopped")
	x.Type("fg\n")
	x.WaitFor("locks --watch\r\n")
	x.WaitFor("rows 1 to 21 of 40") // it has the terminal again
	x.Type("G")
	x.WaitFor("rows 20 to 40 of 40")
	x.Type("qqq")
	x.WaitFor("> ")
	x.Type("\x15") // what was typed too much
	x.Type("stty -a | grep -o -w -e '-*icanon' -e '-*echo' | tr '\\n' ' '; echo mo''des\n")
	if shown := x.WaitFor("modes"); !strings.Contains(shown, "\nicanon echo ") {
		t.Errorf("the terminal's modes afterwards are %q", shown)
	}
	x.Type("exit\n")
	holder.signal(syscall.SIGTERM)
	holder.status()
}

// Continued in the background, where the terminal is another's, it still ends when it is told to.
func TestAWatchInTheBackgroundEnds(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	h.run("run", "demo", "--", "true").want(0)
	h.shellOn(x)
	x.Type("$LK locks --watch\n")
	x.WaitFor("no lock is in use")
	x.Type("\x1a")
	x.WaitFor("Stopped")
	x.WaitFor("> ")
	x.Type("bg; kill %1; wait %1; echo status-$?\n")
	x.WaitFor("status-143")
	x.Type("exit\n")
}
