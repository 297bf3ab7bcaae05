package roll

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// An ensemble is what all members have said.
type ensemble struct {
	states map[string]State
	errs   map[string]error
	leader string // empty if there is none, or more than one
}

// A doubt says why the members are not all well; its zero value says that they are.
type doubt struct {
	text    string
	lasting bool // it does not go away by itself
}

func doubtf(format string, args ...any) doubt { return doubt{text: fmt.Sprintf(format, args...)} }

func lastingf(format string, args ...any) doubt {
	return doubt{text: fmt.Sprintf(format, args...), lasting: true}
}

// survey glances at all members, and looks at them if all answer: to open sessions would only disturb an ensemble that is
// at an election.
func (r *roller) survey(ctx context.Context) ensemble {
	seen := r.ask(ctx, r.Glance)
	if len(seen.errs) == 0 && seen.roles(r.Members) == (doubt{}) {
		seen = r.ask(ctx, r.Look)
	}
	return seen
}

// ask asks all members at the same time.
func (r *roller) ask(ctx context.Context, how func(context.Context, string) (State, error)) ensemble {
	seen := ensemble{map[string]State{}, map[string]error{}, ""}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range r.Members {
		wg.Go(func() {
			s, err := how(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			seen.states[m] = s
			if err != nil {
				seen.errs[m] = err
			}
		})
	}
	wg.Wait()
	leaders := 0
	for _, m := range r.Members {
		if seen.states[m].Mode == leader {
			leaders++
			seen.leader = m
		}
	}
	if leaders != 1 {
		seen.leader = ""
	}
	return seen
}

// roles returns why the members do not form an ensemble.
func (e ensemble) roles(members []string) doubt {
	for _, m := range members {
		switch mode := e.states[m].Mode; {
		case e.errs[m] != nil:
			return doubtf("%s: %v", m, e.errs[m])
		case mode == "":
			return doubtf("%s: it does not serve", m)
		case mode == readOnly:
			return doubtf("%s: it serves reads alone", m)
		case mode != leader && mode != follower && mode != observer:
			return lastingf("%s is %s: it is no member of an ensemble", m, mode)
		}
	}
	if e.leader == "" {
		return doubtf("not exactly one of the members leads")
	}
	return doubt{}
}

// examine returns why the members are not all well.
func (e ensemble) examine(members []string) doubt {
	if d := e.roles(members); d.text != "" {
		return d
	}
	if d := e.configuration(members); d.text != "" {
		return d
	}
	followers := 0
	for _, m := range members {
		if e.states[m].Mode == follower {
			followers++
		}
	}
	if synced := e.states[e.leader].Synced; synced >= 0 && synced < followers {
		return doubtf("%s leads, and says that %d of %d followers are in sync", e.leader, synced, followers)
	}
	return doubt{}
}

// configuration compares what the members have for the configuration, with each other and with the list of them. That of the
// leader may be empty, which says nothing: it was elected with data of another server then, as after ensemble grow, and has not restarted.
func (e ensemble) configuration(members []string) doubt {
	ours, whose := "", ""
	for _, m := range append([]string{e.leader}, members...) {
		switch theirs := e.states[m].Members; {
		case m == e.leader && strings.TrimSpace(theirs) == "":
		case whose == "":
			ours, whose = theirs, m
		case theirs != ours:
			return doubtf("%s and %s have different configurations: %q and %q", m, whose, theirs, ours)
		}
	}
	servers := 0
	var voters []string
	settings := map[string]string{}
	for line := range strings.Lines(ours) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		settings[key] = value
		if !strings.HasPrefix(line, "server.") {
			continue
		}
		servers++
		if !strings.Contains(line, ":observer") {
			voters = append(voters, strings.TrimPrefix(key, "server."))
		}
	}
	switch {
	case servers != len(members):
		return lastingf("the ensemble has %d members, and %d were named: name all", servers, len(members))
	case len(voters) < votersLeast:
		return lastingf("the ensemble has %d voting members: it stops while one of them restarts", len(voters))
	}
	for _, v := range voters {
		if !goesOnWithout(v, settings) {
			return lastingf("by its groups and weights the ensemble stops while server.%s restarts", v)
		}
	}
	return doubt{}
}

// goesOnWithout reports whether the other members have more than half of the weight in more than half of the groups. Without
// groups all members weigh the same.
func goesOnWithout(member string, settings map[string]string) bool {
	groups, whole := 0, 0
	for key, value := range settings {
		if !strings.HasPrefix(key, "group.") {
			continue
		}
		all, others := 0, 0
		for id := range strings.SplitSeq(value, ":") {
			weight, err := strconv.Atoi(settings["weight."+id])
			if err != nil {
				weight = 1
			}
			all += weight
			if id != member {
				others += weight
			}
		}
		if all > 0 { // others do not count
			groups++
		}
		if 2*others > all {
			whole++
		}
	}
	return groups == 0 || 2*whole > groups
}
