package model

// A Result is what came of an exploration.
type Result struct {
	States     int
	Violation  []string // the shortest way to two holders; nil if there is none
	Incomplete bool     // the limit of states was reached
}

// Explore goes through all states that can be reached from a session's creation, the nearest first, until one has two holders
// or there are more than statesMax.
func Explore(r Rule, l Limits, statesMax int) Result {
	type from struct {
		parent int32
		name   string
	}
	grants := []int8{timeout}
	if l.Grants {
		grants = []int8{shorter, timeout}
	}
	index := map[state]int32{}
	var states []state
	var ways []from
	visit := func(s state, parent int32, name string) {
		if _, known := index[s]; !known {
			index[s] = int32(len(states))
			states, ways = append(states, s), append(ways, from{parent, name})
		}
	}
	for _, granted := range grants {
		visit(start(l, granted), -1, "")
	}
	for i := int32(0); int(i) < len(states); i++ {
		if states[i].twoHolders(&r) {
			res := Result{States: len(states)}
			for at := i; ways[at].parent >= 0; at = ways[at].parent {
				res.Violation = append([]string{ways[at].name}, res.Violation...)
			}
			return res
		}
		if len(states) > statesMax {
			return Result{States: len(states), Incomplete: true}
		}
		if states[i].expiresIn == 0 && !states[i].hold {
			continue // the session is over, and the client knows
		}
		for _, next := range states[i].steps(&r, &l) {
			visit(next.next, i, next.name)
		}
	}
	return Result{States: len(states)}
}
