package conformance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	randomSteps = flag.Int("random", 3000, "how many steps of random scripts to play")
	randomSeed  = flag.Uint64("seed", 0, "of the random scripts; 0 for a new one")
)

// stepsPerCase keeps cases short enough to read.
const stepsPerCase = 60

// A random step is a write with several requests as often as not. With -seed, the same scripts are
// played again.
func TestRandomScripts(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	players := start(t, settings{extended: true})
	requests := 0
	for i := range max(1, *randomSteps/stepsPerCase) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(i))), extended: true}
		c := g.makeCase(stepsPerCase)
		m, err := play(players, &c)
		for k := range c.Steps {
			requests += len(c.Steps[k].Calls)
		}
		if why := m.firstDifference(); why != "" || err != nil {
			t.Fatalf("-seed %d, case %d: %v\n%s", seed, i, err, why)
		}
	}
	t.Logf("seed %d: %d requests", seed, requests)
}

// firstDifference returns what is wrong with the first step that is, and the steps before it. The
// znodes that go with a session go in no particular order, and nor do the events of that.
func (m *match) firstDifference() string {
	closed := map[string]bool{} // sessions ended since the connection's last step
	for i := range m.steps {
		s := &m.steps[i]
		if s.step.Calls[0].Verb == "close" {
			for _, name := range connections {
				closed[name] = true
			}
		}
		if closed[s.step.Conn] {
			s.apache, s.ours = sortEvents(s.apache), sortEvents(eventsWithoutZxid(s.ours))
		}
		closed[s.step.Conn] = false
		if why := s.verdict(); why != "" && !s.explained() {
			var before strings.Builder
			for _, p := range m.steps[:i] {
				fmt.Fprintf(&before, "%s\n          %s\n", p.step.Text, indent(p.ours))
			}
			return fmt.Sprintf("%s%s\n%s\n  Apache: %s\n  ours:   %s", before.String(), s.step.Text, why, indent(s.apache), indent(s.ours))
		}
	}
	return ""
}

// explained reports whether a known difference is all the difference of a step.
func (s *played) explained() bool {
	return s.errs == [2]error{} && slices.ContainsFunc(differences, func(d difference) bool {
		return d.explains(s.step.Text, s.apache, eventsWithoutZxid(s.ours))
	})
}

// sortEvents sorts events that follow each other.
func sortEvents(text string) string {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		j := i
		for j < len(lines) && strings.HasPrefix(lines[j], "event ") {
			j++
		}
		slices.Sort(lines[i:j])
		i = j + 1
	}
	return strings.Join(lines, "\n")
}
