package doctor

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
)

// membersLeast is how many voting members go on without one of them.
const membersLeast = 3

// readOnly is the mode of a server without a majority, if its configuration lets it serve reads.
const readOnly = "read-only"

// mends of more than one finding.
const (
	mendMajority = "a majority of the members has to run and to reach each other at the ports of their server.N lines"
	mendMembers  = "give all members the same server.N lines"
	mendList     = "name each member once: the list is shorter than it looks"
)

// roles looks for servers that are away, and for the leader.
func (x *examination) roles(members []Member) {
	modes := map[string][]string{}
	var waiting []string
	seen := map[string]bool{} // a list may name a member twice
	servers := len(x.Servers)
	for i, s := range x.Servers {
		first := slices.IndexFunc(x.Servers[:i], func(other Server) bool { return x.samePlace(other.Address, s.Address) })
		switch {
		case first >= 0 && s.Status != nil && s.Status.Mode == "standalone": // which has no number to tell it by
			x.find(Warning, "twice", s.Name, mendList, "it is the same server as %s", x.Servers[first].Name)
			servers--
		case errors.Is(s.Err, fourletter.ErrNotServing), s.Status != nil && s.Status.Mode == readOnly:
			waiting = append(waiting, s.Name)
		case s.Status != nil:
			key := s.Config["serverId"] + " " + lines(MembersOf(s.Config))
			if !seen[key] || s.Config["serverId"] == "" || s.Status.Mode == "standalone" {
				modes[s.Status.Mode] = append(modes[s.Status.Mode], s.Name)
			}
			seen[key] = true
		default:
			x.find(Critical, "unreachable", s.Name, "start it, or look into its log and the network between", "it does not answer: %v", s.Err)
		}
	}
	alone, leaders, followers := modes["standalone"], modes["leader"], modes["follower"]
	allAnswer := len(x.alive()) == len(x.Servers) && len(x.Servers) >= len(members)
	switch {
	case len(alone) > 0 && servers > 1:
		x.find(Critical, "separate", "", mendMembers+"; bring their data together with lockkeeper z diff and z mirror first",
			"%s: standalone, so each has data of its own, and clients see one or the other", strings.Join(alone, ", "))
	case len(alone) == 1:
		x.find(Note, "standalone", alone[0], "an ensemble of three goes on without one of them (lockkeeper ensemble grow)", "it is a single server")
	case len(leaders) > 1:
		x.find(Critical, "leaders", "", "look which servers each of them has; members of one ensemble have the same server.N lines", "there are %d leaders: %s", len(leaders), strings.Join(leaders, ", "))
	case len(leaders) == 0 && len(followers) > 0 && allAnswer:
		x.find(Critical, "leader", "", mendMajority, "%s follow, and none of the members leads", strings.Join(followers, ", "))
	}
	switch {
	case len(waiting) > 0 && len(leaders)+len(followers) == 0:
		x.find(Critical, "serving", strings.Join(waiting, ", "), mendMajority, "it runs and serves no requests, or only reads: there is no majority that has elected a leader")
	case len(waiting) > 0:
		x.find(Critical, "serving", strings.Join(waiting, ", "), "see its log: it does not reach the leader, or loads for longer than initLimit", "it runs and serves no requests, or only reads, while others have a leader")
	}
	x.synced(len(followers), voters(members))
}

// synced compares what the leader says of its followers with what is known of them.
func (x *examination) synced(followers int, voters []Member) {
	for _, s := range x.alive() {
		n, err := strconv.ParseFloat(s.Monitor["zk_synced_followers"], 64)
		synced := int(n)
		switch {
		case s.Status.Mode != "leader" || err != nil:
		case followers > synced:
			x.find(Critical, "sync", s.Name, "see the followers' logs; a follower that loads for longer than initLimit never gets in sync",
				"in sync with it: %d of the %d servers that follow", synced, followers)
		case synced < len(voters)-1 && len(x.alive()) == len(x.Servers):
			x.find(Critical, "sync", s.Name, "name all members, to see which it is; start it, or see its log",
				"in sync with it: %d of the %d voting members that should follow", synced, len(voters)-1)
		}
	}
}

// members compares what the members say of each other, and returns them; nil if they are not known.
func (x *examination) members() []Member {
	members, from := x.Members, "/zookeeper/config"
	for _, s := range x.alive() {
		own := MembersOf(s.Config)
		if own == nil {
			continue
		}
		if members == nil {
			members, from = own, s.Name
		}
		known := members
		if s.VotersOnly {
			known = voters(members)
		}
		if lines(own) != lines(known) {
			x.find(Critical, "members", s.Name, mendMembers, "its members are %s, and those of %s %s", lines(own), from, lines(known))
		}
	}
	x.size(members)
	if x.machine != nil && members != nil {
		if own := MembersOf(x.machine.Settings); own != nil && lines(own) != lines(members) {
			x.find(Warning, "members", x.machine.Config, mendMembers+", or make this file that of a member", "its members are %s, and those of %s %s", lines(own), from, lines(members))
		}
	}
	return members
}

// size judges how many members there are.
func (x *examination) size(members []Member) {
	switch n := len(voters(members)); {
	case n == 0 || slices.ContainsFunc(members, func(m Member) bool { return m.Grouped }):
	case n < membersLeast:
		x.find(Warning, "size", "", "have three voting members", "%s: the ensemble stops when one fails", count(n, "voting member", "voting members"))
	case n%2 == 0:
		x.find(Warning, "size", "", "have one more or one less", "there are %d voting members: one more fails no better than %d", n, n-1)
	}
}

// list compares the servers that were named with the members.
func (x *examination) list(members []Member) {
	if len(members) == 0 {
		return
	}
	named := map[string]string{} // by number of the member
	unsure := false              // a server may be one of several members
	for _, s := range x.Servers {
		candidates := x.candidates(s, members)
		switch {
		case len(candidates) == 1:
			id := candidates[0].ID
			if other, ok := named[id]; ok {
				x.find(Warning, "twice", s.Name, mendList, "it is the same server as %s: server.%s", other, id)
			}
			named[id] = s.Name
		case len(candidates) > 1 || s.Address == "":
			unsure = true
		case s.Status == nil:
			x.find(Warning, "stranger", s.Name, "take it out of --servers and of what clients are given", "it is where no member serves clients; the members are %s", lines(members))
		case s.Status.Mode != "standalone":
			unsure = true
			x.find(Note, "stranger", s.Name, "see that it leads to a member (with conf or the admin port, doctor sees which)", "it answers, and no member has that address; the members are %s", lines(members))
		}
	}
	if len(members) <= len(x.Servers) {
		return
	}
	missing := ""
	for _, m := range members {
		if _, ok := named[m.ID]; !ok && !unsure {
			missing += " " + m.String()
		}
	}
	if missing != "" {
		missing = "; not among the servers:" + missing
	}
	x.find(Note, "list", "", "name all of them, in --servers and in what clients are given",
		"of %s, %s named%s", count(len(members), "member", "members"), count(len(x.Servers), "is", "are"), missing)
}

// candidates returns the members that a server may be: the one whose number it says, and otherwise those at its address.
func (x *examination) candidates(s Server, members []Member) (all []Member) {
	for _, m := range members {
		if m.ID == s.Config["serverId"] {
			return []Member{m}
		}
		if x.isAt(m, s.Address) {
			all = append(all, m)
		}
	}
	return all
}

// isAt reports whether a member serves clients at an address, as far as its line says.
func (x *examination) isAt(m Member, address string) bool {
	if m.Client != "" {
		return x.samePlace(m.Client, address)
	}
	host, _, err := net.SplitHostPort(address)
	return err == nil && slices.ContainsFunc(m.Hosts(), func(h string) bool { return x.sameHost(h, host) })
}

func (x *examination) samePlace(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && portA == portB && x.sameHost(hostA, hostB)
}

// sameHost reports whether two names are of one host.
func (x *examination) sameHost(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	of := func(host string) []string {
		if net.ParseIP(host) != nil {
			return []string{host}
		}
		return x.Addresses[host]
	}
	return slices.ContainsFunc(of(a), func(ip string) bool { return slices.Contains(of(b), ip) })
}
