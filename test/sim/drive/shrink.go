package drive

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/test/sim/world"
)

// shrinkRuns bounds how often a plan is run to shrink it.
const shrinkRuns = 400

// Shrink leaves out as many steps of a plan that shows a violation as it can: first large parts of it, then
// single steps (delta debugging). It returns the plan and the report of its run.
func (w *Worker) Shrink(p *world.Plan) (*world.Plan, *world.Report, error) {
	best := *p
	report, err := w.Plan(&best)
	if err != nil || len(report.Violations) == 0 {
		return &best, report, err
	}
	runs := 0
	for part := max(len(best.Steps)/2, 1); ; part = max(part/2, 1) {
		shrunk := false
		for from := 0; from < len(best.Steps) && runs < shrinkRuns; {
			shorter := best
			shorter.Steps = slices.Delete(slices.Clone(best.Steps), from, min(from+part, len(best.Steps)))
			r, err := w.Plan(&shorter)
			if err != nil {
				return nil, nil, err
			}
			runs++
			if len(r.Violations) > 0 {
				best, report, shrunk = shorter, r, true
			} else {
				from += part
			}
		}
		if part == 1 && !shrunk || runs >= shrinkRuns {
			return &best, report, nil
		}
	}
}
