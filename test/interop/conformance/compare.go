package conformance

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/test/interop/conformance/script"
)

// A match is a case played to both servers.
type match struct {
	steps []played
}

// played is one step of it.
type played struct {
	step         *script.Step
	apache, ours string
	errs         [2]error
}

// zxids of a case, as the player writes them.
var zxids = regexp.MustCompile(`( at |[{ ][cmp])[+-][0-9]+`)

// forgetZxids is for servers that change something by themselves at times: they may try to delete
// the same znode twice, and count a transaction for each attempt.
func (m *match) forgetZxids() {
	for i := range m.steps {
		s := &m.steps[i]
		s.apache, s.ours = zxids.ReplaceAllString(s.apache, "${1}some"), zxids.ReplaceAllString(eventsWithoutZxid(s.ours), "${1}some")
	}
}

// play plays a case to both servers at once, step by step, so that neither is ahead.
func play(players [2]*script.Player, c *script.Case) (match, error) {
	var rounds [2]*script.Round
	if err := align(players); err != nil {
		return match{}, err
	}
	for i, p := range players {
		var err error
		if rounds[i], err = p.Begin(); err != nil {
			return match{}, err
		}
	}
	m := match{steps: make([]played, len(c.Steps))}
	for i := range c.Steps {
		s := &m.steps[i]
		s.step = &c.Steps[i]
		both(
			func() { s.apache, s.errs[0] = rounds[0].Step(s.step) },
			func() { s.ours, s.errs[1] = rounds[1].Step(s.step) },
		)
	}
	var ends [2]error
	both(func() { ends[0] = rounds[0].End() }, func() { ends[1] = rounds[1].End() })
	for _, err := range ends {
		if err != nil {
			return m, fmt.Errorf("clean up: %w", err)
		}
	}
	return m, nil
}

// align makes the roots of two servers equal that have lived through different things, by creating
// and deleting below the one that has seen less, so that no case is led astray by an earlier one.
func align(players [2]*script.Player) error {
	for {
		var counters [2]int32
		for i, p := range players {
			var err error
			if counters[i], err = p.Touch(); err != nil {
				return err
			}
		}
		behind := 0
		switch {
		case counters[0] == counters[1]:
			return nil
		case counters[0] > counters[1]:
			behind = 1
		}
		if err := players[behind].Advance(); err != nil {
			return err
		}
	}
}

func both(a, b func()) {
	var wg sync.WaitGroup
	wg.Go(a)
	b()
	wg.Wait()
}

// verdict returns what is wrong with a step, or "".
func (s *played) verdict() string {
	apache, ours := s.apache, eventsWithoutZxid(s.ours)
	for _, err := range s.errs {
		if err != nil {
			return err.Error()
		}
	}
	switch {
	case s.step.Differs == "" && apache == ours:
		return ""
	case s.step.Differs == "":
		return "the servers differ"
	case apache == ours:
		return "the servers do not differ"
	}
	for i := range differences {
		if d := &differences[i]; d.name == s.step.Differs {
			if d.explains(s.step.Text, apache, ours) {
				return ""
			}
			return "they differ in another way than that"
		}
	}
	return "no such difference is known"
}

// explains reports whether d is the whole difference between two answers.
func (d *difference) explains(request, apache, ours string) bool {
	if !d.request.MatchString(request) || !d.apache.MatchString(apache) {
		return false
	}
	want := regexp.QuoteMeta(d.apache.ReplaceAllString(apache, d.ours))
	want = strings.ReplaceAll(want, "…", `[^\n]*?`)
	return regexp.MustCompile(`^` + want + `$`).MatchString(ours)
}

// The one difference that is in all scripts: since 3.9.0, the head of an event has the zxid of the
// transaction that caused it, if any; before, it was -1.
var eventZxid = regexp.MustCompile(`(?m)^(event .*) at ([+-][0-9]+)$`)

func eventsWithoutZxid(ours string) string { return eventZxid.ReplaceAllString(ours, "$1 at none") }

// eventZxids returns the zxids of the events in an answer, counted from the start of the case.
func eventZxids(ours string) []int {
	var zxids []int
	for _, m := range eventZxid.FindAllStringSubmatch(ours, -1) {
		n, _ := strconv.Atoi(m[2])
		zxids = append(zxids, n)
	}
	return zxids
}
