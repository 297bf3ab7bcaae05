// Package doctor judges what is known of a ZooKeeper ensemble: which of the known ways to lose data or availability it
// is close to, how that shows, and what to do. It is pure: others ask the servers.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Severity says how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Critical Severity = "critical" // data or availability is lost, or about to be
	Warning  Severity = "warning"  // it will be, some day
	Note     Severity = "note"     // worth knowing
)

// A Finding is something that is not as it should be.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`            // a word for each kind of finding
	Server   string   `json:"server,omitempty"` // empty for the whole ensemble
	Evidence string   `json:"evidence"`
	Mend     string   `json:"mend"`
}

// A Server is what a server has said.
type Server struct {
	Name    string
	Status  *fourletter.Status // nil if it did not answer
	Err     error              // why not
	Monitor map[string]string  // of mntr; nil if that is refused
	Config  map[string]string  // of conf, with its server.N lines; nil if that is refused
}

// An Ensemble is all that is looked at.
type Ensemble struct {
	Servers []Server
	Members []string // the server.N lines of /zookeeper/config; nil if not known
	RootACL []zk.ACL // nil if not known
	TLS     bool     // the connections are encrypted
}

// The limits above which there is a finding.
const (
	latencyMaxMs      = 100.0
	descriptorsShare  = 0.8
	outstandingMax    = 100
	fewerNodesShare   = 0.9
	fsyncMaxMs        = 1000
	epochShift        = 32
	membersLeast      = 3
	readableWordsNeed = "4lw.commands.whitelist=srvr,mntr,conf in zoo.cfg"
)

// Examine returns the findings, the worst first.
func Examine(e Ensemble) []Finding {
	x := examination{Ensemble: e}
	x.roles()
	x.members()
	x.data()
	x.load()
	x.access()
	slices.SortStableFunc(x.findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return x.findings
}

func (s Severity) rank() int { return slices.Index([]Severity{Critical, Warning, Note}, s) }

type examination struct {
	Ensemble
	findings []Finding
}

func (x *examination) find(s Severity, check, server, mend, evidence string, args ...any) {
	x.findings = append(x.findings, Finding{s, check, server, fmt.Sprintf(evidence, args...), mend})
}

// alive returns the servers that have answered.
func (x *examination) alive() []Server {
	return slices.DeleteFunc(slices.Clone(x.Servers), func(s Server) bool { return s.Status == nil })
}

func (x *examination) roles() {
	modes := map[string][]string{}
	for _, s := range x.Servers {
		if s.Status == nil {
			x.find(Critical, "unreachable", s.Name, "start it, or look into its log and the network between", "it does not answer: %v", s.Err)
			continue
		}
		modes[s.Status.Mode] = append(modes[s.Status.Mode], s.Name)
	}
	alone, leaders, followers := modes["standalone"], modes["leader"], modes["follower"]
	switch {
	case len(alone) > 0 && len(x.Servers) > 1:
		x.find(Critical, "separate", "", "give all servers the same server.N lines; bring their data together with lockkeeper z diff and z mirror first",
			"%s: standalone, so each has data of its own, and clients see one or the other", strings.Join(alone, ", "))
	case len(alone) == 1:
		x.find(Note, "standalone", alone[0], "an ensemble of three goes on without one of them", "it is a single server")
	case len(leaders) > 1:
		x.find(Critical, "leaders", "", "look which servers each of them has; members of one ensemble have the same server.N lines", "there are %d leaders: %s", len(leaders), strings.Join(leaders, ", "))
	case len(leaders) == 0 && len(x.alive()) > 0 && (len(followers) == 0 || len(x.alive()) == len(x.Servers)):
		x.find(Critical, "leader", "", "a majority of the members has to run and to reach each other at the ports of their server.N lines", "none of these servers leads")
	}
	for _, s := range x.alive() {
		synced, err := strconv.ParseFloat(s.Monitor["zk_synced_followers"], 64)
		if s.Status.Mode == "leader" && err == nil && len(followers) > int(synced) {
			x.find(Critical, "sync", s.Name, "see the followers' logs; a follower that loads for longer than initLimit never gets in sync",
				"%d servers follow, and %g are in sync", len(followers), synced)
		}
	}
}

func (x *examination) members() {
	members := x.Members
	var from string
	for _, s := range x.alive() {
		own := serverLines(s.Config)
		if own == nil {
			continue
		}
		if members == nil {
			members, from = own, s.Name
		} else if from != "" && !slices.Equal(own, members) {
			x.find(Critical, "members", s.Name, "give all members the same server.N lines", "its members are %s, and those of %s %s", strings.Join(own, " "), from, strings.Join(members, " "))
		} else if from == "" {
			from = s.Name
			members = own
		}
	}
	voting := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return strings.Contains(m, ":observer") })
	switch n := len(voting); {
	case n == 0:
		return
	case n < membersLeast:
		x.find(Warning, "size", "", "have three voting members", "there are %d voting members: the ensemble stops when one fails", n)
	case n%2 == 0:
		x.find(Warning, "size", "", "have one more or one less", "there are %d voting members: one more fails no better than %d", n, n-1)
	}
	if len(members) > len(x.Servers) {
		x.find(Note, "list", "", "name all of them, in --servers and in what clients are given", "the ensemble has %d members, and %d were named", len(members), len(x.Servers))
	}
}

// serverLines returns the server.N lines of conf, sorted.
func serverLines(config map[string]string) (lines []string) {
	for key, value := range config {
		if strings.HasPrefix(key, "server.") {
			lines = append(lines, key+"="+value)
		}
	}
	slices.Sort(lines)
	return lines
}

func (x *examination) data() {
	most, newest := 0, int64(0)
	quiet := false // no transaction since the election: followers still have the zxids of before
	versions := map[string]bool{}
	for _, s := range x.alive() {
		most, newest = max(most, s.Status.Znodes), max(newest, epoch(s.Status.Zxid))
		quiet = quiet || s.Status.Mode == "leader" && counter(s.Status.Zxid) == 0
		version, _, _ := strings.Cut(s.Status.Version, "-")
		versions[version] = true
	}
	for _, s := range x.alive() {
		if float64(s.Status.Znodes) < fewerNodesShare*float64(most) && most-s.Status.Znodes > 10 {
			x.find(Critical, "znodes", s.Name, "do not restart the others before it has caught up: if it led, the rest would be lost", "it has %d znodes, and another has %d", s.Status.Znodes, most)
		}
		if own := epoch(s.Status.Zxid); own < newest && !quiet {
			x.find(Warning, "epoch", s.Name, "see its log: it has not followed since the last election", "its zxid %s is of epoch %d, and another's of %d", s.Status.Zxid, own, newest)
		}
	}
	if len(versions) > 1 {
		var all []string
		for v := range versions {
			all = append(all, v)
		}
		slices.Sort(all)
		x.find(Warning, "versions", "", "finish the upgrade", "the servers are of different versions: %s", strings.Join(all, ", "))
	}
}

// counter returns how many transactions an epoch had up to a zxid.
func counter(zxid string) uint32 {
	n, err := strconv.ParseUint(strings.TrimPrefix(zxid, "0x"), 16, 64)
	if err != nil {
		return 0
	}
	return uint32(n)
}

func epoch(zxid string) int64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(zxid, "0x"), 16, 64)
	if err != nil {
		return 0
	}
	return int64(n >> epochShift)
}

func (x *examination) load() {
	bounds := map[string]string{}
	for _, s := range x.alive() {
		if s.Status.LatencyAvg > latencyMaxMs {
			x.find(Warning, "latency", s.Name, "look at the disk of its transaction log, and at the size of requests", "requests take %g ms on average", s.Status.LatencyAvg)
		}
		if s.Status.Outstanding > outstandingMax {
			x.find(Warning, "outstanding", s.Name, "its disk or processor cannot follow; look for clients that send too much", "%d requests wait", s.Status.Outstanding)
		}
		if s.Monitor == nil || s.Config == nil {
			x.find(Note, "words", s.Name, readableWordsNeed, "mntr or conf is refused, so some checks were left out")
		}
		opened, most := number(s.Monitor, "zk_open_file_descriptor_count"), number(s.Monitor, "zk_max_file_descriptor_count")
		if most > 0 && opened > descriptorsShare*most {
			x.find(Warning, "descriptors", s.Name, "raise its limit of open files (LimitNOFILE)", "%g of %g file descriptors are in use", opened, most)
		}
		if ms := number(s.Monitor, "zk_avg_fsynctime"); ms > fsyncMaxMs {
			x.find(Warning, "fsync", s.Name, "give the transaction log a disk of its own (dataLogDir)", "a sync to disk takes %g ms on average", ms)
		}
		if s.Config["minSessionTimeout"] == "" {
			continue
		}
		own := s.Config["minSessionTimeout"] + " to " + s.Config["maxSessionTimeout"] + " ms"
		bounds[own] = s.Name
		if len(bounds) == 2 {
			x.find(Warning, "timeouts", s.Name, "set tickTime, minSessionTimeout and maxSessionTimeout alike on all members", "it grants session timeouts from %s, and others grant others: a session changes when it changes servers", own)
		}
	}
}

func number(values map[string]string, key string) float64 {
	n, err := strconv.ParseFloat(values[key], 64)
	if err != nil {
		return 0
	}
	return n
}

func (x *examination) access() {
	for _, a := range x.RootACL {
		if a.Scheme == "world" && a.Perms&(zk.PermWrite|zk.PermCreate|zk.PermDelete|zk.PermAdmin) != 0 {
			x.find(Warning, "open", "", "lockkeeper z acl set / world:anyone:r,SCHEME:ID:cdrwa, with an identity of yours", "any client may change the root: %s:%s", a.Scheme, a.ID)
		}
	}
	if !x.TLS && len(x.alive()) > 0 {
		x.find(Note, "plain", "", "secureClientPort and --tls-ca", "the connections are not encrypted")
	}
}
