package front

import (
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

// Without a terminal, the line that is due says what is so at that moment.
func TestTheWaitLineWithoutATerminal(t *testing.T) {
	var out strings.Builder
	l := newWaitLine("demo", &out)
	defer l.ticker.Stop()
	next := func() string {
		out.Reset()
		l.start = l.start.Add(-2 * plainPauseMax) // the next line is due
		l.draw()
		_, said, _ := strings.Cut(out.String(), " for ")
		return said
	}
	if said := next(); said != "" {
		t.Errorf("before anything is known it says %q", said)
	}
	l.update(link.Note{Is: link.IsWaiting, Ahead: 2, Holder: "h"})
	for _, step := range []struct{ why, want string }{
		{"", "demo, behind 2; held by h\n"},
		{"connection refused", "demo; no server is there: connection refused\n"},
		{"", "demo, behind 2; held by h\n"},
	} {
		l.cutOff(step.why)
		if said := next(); said != step.want {
			t.Errorf("with the cause %q it says %q, want %q", step.why, said, step.want)
		}
	}
	l.start, l.next = time.Now(), plainDelay
	out.Reset()
	l.cutOff("soon over")
	if out.Len() > 0 {
		t.Errorf("before a line is due it says %q", out.String())
	}
}
