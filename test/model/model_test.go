package model

import (
	"flag"
	"strings"
	"testing"
)

var large = flag.Bool("model.large", false, "explore the larger worlds, too")

// statesMax bounds the memory of one exploration.
const statesMax = 60_000_000

// small are worlds that are explored within seconds, by half a tick: a session timeout has six, three and two ticks.
func small() []Limits {
	var all []Limits
	for _, halfTick := range []int8{1, 2, 3} {
		all = append(all,
			Limits{HalfTick: halfTick, Late: 1, Pauses: 1, Splits: 1},
			Limits{HalfTick: halfTick, Extra: 1, Pauses: 1, Splits: 1},
			Limits{HalfTick: halfTick, Extra: 1, Breaks: 1, Leaders: 1, Grants: true},
		)
	}
	return all
}

// larger are worlds in which more goes wrong.
func larger() []Limits {
	var all []Limits
	for _, halfTick := range []int8{1, 2, 3} {
		all = append(all,
			Limits{HalfTick: halfTick, Extra: 2, Late: 1, Pauses: 1, Splits: 1},
			Limits{HalfTick: halfTick, Late: 1, Pauses: 1, Splits: 1, Breaks: 1, Leaders: 1, Grants: true},
		)
	}
	return all
}

// F17, F46: with the present rule no state has two holders.
func TestF17_NoStateHasTwoHolders(t *testing.T) {
	worlds := small()
	if *large {
		worlds = append(worlds, larger()...)
	}
	states, violations := 0, 0
	for _, l := range worlds {
		res := Explore(Present, l, statesMax)
		states += res.States
		switch {
		case res.Violation != nil:
			violations++
			t.Errorf("%+v: two holders:\n  %s", l, strings.Join(res.Violation, "\n  "))
		case res.Incomplete:
			t.Errorf("%+v: more than %d states", l, statesMax)
		}
		t.Logf("%+v: %d states", l, res.States)
	}
	t.Logf("model: worlds=%d states=%d violations=%d", len(worlds), states, violations)
}

// The model finds two holders with the rules of former versions.
func TestF17_FormerRulesHaveTwoHolders(t *testing.T) {
	for _, r := range Mutations {
		found := false
		for _, l := range small() {
			res := Explore(r, l, statesMax)
			if res.Violation != nil {
				found = true
				t.Logf("%s: two holders after %d states:\n  %s", r.Name, res.States, strings.Join(res.Violation, "\n  "))
				break
			}
		}
		if !found {
			t.Errorf("%s: no state with two holders was found", r.Name)
		}
	}
}

// F17: a session timeout has to have two ticks. With a minSessionTimeout below that, or a tick that has grown under a living
// session, the present rule has two holders, too: docs/guarantees.md names the assumption.
func TestF17_LessThanTwoTicksAreTooFew(t *testing.T) {
	res := Explore(Present, Limits{HalfTick: timeout/4 + 1, Splits: 1}, statesMax)
	if res.Violation == nil {
		t.Errorf("%d states have no two holders: the assumption is not necessary", res.States)
	}
	t.Logf("two holders after %d states:\n  %s", res.States, strings.Join(res.Violation, "\n  "))
}
