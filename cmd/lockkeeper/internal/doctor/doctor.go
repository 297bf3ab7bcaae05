// Package doctor judges what is known of a ZooKeeper ensemble and of the machine of a member: which of the known ways to
// lose data or availability it is close to, how that shows, and what to do. It is pure; package gather collects the facts.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Severity says how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Critical Severity = "critical" // data or availability is lost, or about to be
	Warning  Severity = "warning"  // it will be, some day
	Note     Severity = "note"     // worth knowing
)

func (s Severity) rank() int { return slices.Index([]Severity{Critical, Warning, Note}, s) }

// A Finding is something that is not as it should be.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`            // a name of Checks
	Server   string   `json:"server,omitempty"` // or a file of the machine; empty for the whole ensemble
	Evidence string   `json:"evidence"`
	Mend     string   `json:"mend"`
}

// Examine returns the findings, the worst first. m is nil if no machine was looked at; an ensemble without servers was
// not looked at.
func Examine(e Ensemble, m *Machine) []Finding {
	x := examination{Ensemble: e, machine: m}
	if len(e.Servers) > 0 {
		members := x.members()
		x.roles(members)
		x.list(members)
		x.data()
		x.load()
		x.startup()
		x.access()
		x.admin()
		x.properties()
		x.tree()
	}
	if m != nil {
		x.files()
		x.identity()
		x.disks()
		x.memory()
	}
	slices.SortStableFunc(x.findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return x.findings
}

type examination struct {
	Ensemble
	machine  *Machine
	findings []Finding
}

func (x *examination) find(s Severity, check, server, mend, evidence string, args ...any) {
	x.findings = append(x.findings, Finding{s, check, server, fmt.Sprintf(evidence, args...), mend})
}

// alive returns the servers that have answered.
func (x *examination) alive() []Server {
	return slices.DeleteFunc(slices.Clone(x.Servers), func(s Server) bool { return s.Status == nil })
}

// number returns a value of mntr or conf; 0 if there is none.
func number(values map[string]string, key string) float64 {
	n, err := strconv.ParseFloat(values[key], 64)
	if err != nil {
		return 0
	}
	return n
}

// count returns a number with what it counts.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// isOn reports whether a value of zoo.cfg or of a JVM property means yes.
func isOn(value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	return value == "true" || value == "yes"
}
