package zoocfg

import (
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Faults returns with which settings Apache ZooKeeper does not start, and which it cannot work with. static are those of
// zoo.cfg, and dynamic those of the file that its dynamicConfigFile names, as far as they are known. What this package's
// own server refuses is another matter: see Parse.
func Faults(static, dynamic []Setting) []*Error {
	f := faults{settings: lastOfKeys(static)}
	for _, s := range f.settings {
		f.add(s, Refused(s.Key, s.Value))
	}
	f.ports()
	f.timeouts()
	f.sasl()
	lines := f.settings
	if _, ok := f.of("dynamicConfigFile"); ok {
		f.dynamic(dynamic)
		lines = lastOfKeys(dynamic)
	}
	f.twice(static, dynamic)
	f.members(lines)
	return f.found
}

type faults struct {
	settings []Setting // of zoo.cfg
	found    []*Error
}

// add adds a fault, unless there is no reason for one.
func (f *faults) add(s Setting, reason string) {
	if reason != "" {
		f.found = append(f.found, &Error{s, reason})
	}
}

// of returns a setting of zoo.cfg.
func (f *faults) of(key string) (Setting, bool) {
	i := slices.IndexFunc(f.settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return f.settings[i], true
}

// lastOfKeys leaves out the settings that later ones replace, as Java does. The prefix of properties stays: no key that
// Apache ZooKeeper looks for in its file has it.
func lastOfKeys(settings []Setting) []Setting {
	var kept []Setting
	for _, s := range settings {
		kept = slices.DeleteFunc(kept, func(old Setting) bool { return old.Key == s.Key })
		kept = append(kept, s)
	}
	return kept
}

// noStart ends the reason for a setting with which Apache ZooKeeper ends at once.
const noStart = ": Apache ZooKeeper does not start with it"

// Refused returns why Apache ZooKeeper does not start with a value of a key; empty if it does, or if the value is not enough to tell.
func Refused(key, value string) string {
	if taken := apacheTypes[key]; taken != nil {
		return taken(value)
	}
	return ""
}

// apacheTypes says what each key takes that Apache ZooKeeper itself parses: the reason to refuse a value, or nothing.
var apacheTypes = map[string]func(value string) string{
	"clientPort": javaPort, "secureClientPort": javaPort, "observerMasterPort": javaPort,
	"tickTime": javaTick, "initLimit": javaInt, "syncLimit": javaInt, "minSessionTimeout": javaInt, "maxSessionTimeout": javaInt,
	"maxClientCnxns": javaInt, "clientPortListenBacklog": javaInt, "connectToLearnerMasterLimit": javaInt,
	"autopurge.snapRetainCount": javaInt, "autopurge.purgeInterval": javaInt,
	"quorum.cnxn.threads.size": javaInt, "multiAddress.reachabilityCheckTimeoutMs": javaInt,
	"jvm.pause.info-threshold.ms": javaLong, "jvm.pause.warn-threshold.ms": javaLong, "jvm.pause.sleep.time.ms": javaLong,
	"jvm.pause.monitor": javaBool, "localSessionsEnabled": javaBool, "localSessionsUpgradingEnabled": javaBool,
	"quorumListenOnAllIPs": javaBool, "syncEnabled": javaBool, "standaloneEnabled": javaBool, "reconfigEnabled": javaBool,
	"sslQuorum": javaBool, "portUnification": javaBool, "sslQuorumReloadCertFiles": javaBool,
	"quorum.auth.enableSasl": javaBool, "quorum.auth.serverRequireSasl": javaBool, "quorum.auth.learnerRequireSasl": javaBool,
	"multiAddress.enabled": javaBool, "multiAddress.reachabilityCheckEnabled": javaBool,
	"electionAlg": oneOf("3"), "peerType": oneOf("observer", "participant"),
}

func javaInt(value string) string { return wholeNumber(value, 32) }

func javaLong(value string) string { return wholeNumber(value, 64) }

func wholeNumber(value string, bits int) string {
	if _, err := strconv.ParseInt(value, 10, bits); err != nil {
		return "is no whole number of " + strconv.Itoa(bits) + " bits" + noStart
	}
	return ""
}

func javaPort(value string) string {
	if !isJavaPort(value) {
		return "is no port" + noStart
	}
	return ""
}

func isJavaPort(value string) bool {
	n, err := strconv.ParseInt(value, 10, 32)
	return err == nil && n >= 0 && n <= math.MaxUint16
}

func javaTick(value string) string {
	if n, err := strconv.ParseInt(value, 10, 32); err != nil || n == 0 {
		return "must be a whole number of milliseconds" + noStart
	}
	return ""
}

func javaBool(value string) string { return oneOf("true", "false")(value) }

func oneOf(words ...string) func(string) string {
	return func(value string) string {
		if slices.Contains(words, strings.ToLower(value)) {
			return ""
		}
		return "must be " + strings.Join(words, " or ") + noStart
	}
}

// ports looks for addresses without a port.
func (f *faults) ports() {
	for _, name := range []string{"clientPort", "secureClientPort"} {
		address, ok := f.of(name + "Address")
		port, _ := f.of(name)
		if ok && (port.Value == "" || port.Value == "0") {
			f.add(address, name+" is not set"+noStart)
		}
	}
}

// timeouts compares the limits of session timeouts, in Java's arithmetic. A number that cannot be read is a fault of its
// own, and has none here.
func (f *faults) timeouts() {
	var where Setting // the most particular one that is set
	number := func(key string, unset int32) int32 {
		s, ok := f.of(key)
		if !ok {
			return unset
		}
		n, err := strconv.ParseInt(s.Value, 10, 32)
		if err != nil {
			return unset
		}
		where = s
		return int32(n)
	}
	tick := number("tickTime", int32(tickDefault.Milliseconds()))
	longest := number("maxSessionTimeout", unset)
	shortest := number("minSessionTimeout", unset)
	if longest == unset {
		longest = maxTicks * tick
	}
	if shortest == unset {
		shortest = minTicks * tick
	}
	if shortest > longest {
		f.add(where, fmt.Sprintf("minSessionTimeout of %d ms is longer than maxSessionTimeout of %d ms (their defaults are %d and %d times tickTime, which is %d ms)%s",
			shortest, longest, minTicks, maxTicks, tick, noStart))
	}
}

// sasl looks for authentication among members that is required and not enabled.
func (f *faults) sasl() {
	const enabled, ofServers, ofLearners = "quorum.auth.enableSasl", "quorum.auth.serverRequireSasl", "quorum.auth.learnerRequireSasl"
	for _, need := range [][2]string{{ofServers, enabled}, {ofLearners, enabled}, {ofServers, ofLearners}} {
		s, _ := f.of(need[0])
		needed, _ := f.of(need[1])
		if strings.EqualFold(s.Value, "true") && !strings.EqualFold(needed.Value, "true") {
			f.add(s, "needs "+need[1]+"=true"+noStart)
		}
	}
}

// isMemberKey reports whether a key belongs where the members are.
func isMemberKey(key string) bool {
	return strings.HasPrefix(key, "server.") || strings.HasPrefix(key, "group") || strings.HasPrefix(key, "weight")
}

// dynamic looks for what is in the wrong one of two files.
func (f *faults) dynamic(dynamic []Setting) {
	for _, s := range f.settings {
		if isMemberKey(s.Key) {
			f.add(s, "must be in the file that dynamicConfigFile names"+noStart)
		}
	}
	for _, s := range lastOfKeys(dynamic) {
		if !isMemberKey(s.Key) {
			f.add(s, "must not be in the file that dynamicConfigFile names"+noStart)
		}
	}
}

// twice looks for members that lines say differently. Apache ZooKeeper takes the last one.
func (f *faults) twice(files ...[]Setting) {
	for _, settings := range files {
		for i, s := range settings {
			if !strings.HasPrefix(s.Key, "server.") {
				continue
			}
			later := slices.IndexFunc(settings[i+1:], func(o Setting) bool { return o.Key == s.Key })
			if later >= 0 && settings[i+1+later].Value != s.Value {
				f.add(s, "has no effect: "+settings[i+1+later].Where+" has another "+s.Key)
			}
		}
	}
}

// members looks at the server.N lines, and at the groups of members.
func (f *faults) members(lines []Setting) {
	owner := map[string]Setting{} // of the address of a port
	var voters, observers []Setting
	for _, s := range lines {
		id, ok := strings.CutPrefix(s.Key, "server.")
		if !ok {
			continue
		}
		if _, err := strconv.ParseInt(id, 10, 64); err != nil {
			f.add(s, fmt.Sprintf("%q is no number of a member%s", id, noStart))
			continue
		}
		places, observer, reason := apacheMember(s.Value)
		if reason != "" {
			f.add(s, reason+noStart)
			continue
		}
		for _, place := range places {
			other, taken := owner[place]
			if taken && other.Key != s.Key {
				f.add(s, "it has "+place+", as "+other.Key+" has in "+other.Where+": only one of them can run there, and the other is always missing")
				break
			}
			owner[place] = s
		}
		if observer {
			observers = append(observers, s)
		} else {
			voters = append(voters, s)
		}
	}
	alone, _ := f.of("standaloneEnabled")
	mayBeAlone := !strings.EqualFold(alone.Value, "false")
	switch {
	case len(f.found) > 0 || len(lines) == 0: // the members may not be what they seem
	case len(voters) == 0 && len(observers) == 0 && !mayBeAlone:
		f.add(alone, "there is no member that votes"+noStart)
	case len(observers) > 0 && (len(voters) == 0 || len(voters) == 1 && mayBeAlone):
		f.add(observers[0], "an observer needs members that vote, two at least unless standaloneEnabled=false"+noStart)
	default:
		f.groups(lines, voters)
	}
}

// groups looks at the groups and weights of a quorum that goes by them.
func (f *faults) groups(lines, voters []Setting) {
	if _, oracle := f.of("oraclePath"); oracle { // which decides in their place
		return
	}
	grouped := false
	groupOf, weighted := map[int64]Setting{}, map[int64]bool{} // by number of the member
	for _, s := range lines {
		if !isMemberKey(s.Key) || strings.HasPrefix(s.Key, "server.") {
			continue
		}
		grouped = true
		isGroup := strings.HasPrefix(s.Key, "group")
		_, number, _ := strings.Cut(s.Key, ".")
		texts := []string{number, s.Value}
		if isGroup {
			texts = append(texts[:1], strings.Split(strings.TrimRight(s.Value, ":"), ":")...)
		}
		numbers := make([]int64, len(texts))
		for i, text := range texts {
			var err error
			if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
				f.add(s, fmt.Sprintf("%q is no whole number%s", text, noStart))
			}
		}
		if !isGroup {
			weighted[numbers[0]] = true
			continue
		}
		for _, id := range numbers[1:] {
			if other, taken := groupOf[id]; taken {
				f.add(s, fmt.Sprintf("member %d is in %s already%s", id, other.Key, noStart))
			}
			groupOf[id] = s
		}
	}
	if !grouped || len(f.found) > 0 {
		return
	}
	for _, s := range voters {
		id, _ := strconv.ParseInt(strings.TrimPrefix(s.Key, "server."), 10, 64)
		weighted[id] = true // 1, unless a line says otherwise
		if _, ok := groupOf[id]; !ok {
			f.add(s, "it is in no group, and there are groups or weights"+noStart)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(groupOf)) {
		if !weighted[id] {
			f.add(groupOf[id], fmt.Sprintf("there is no member %d that votes%s", id, noStart))
		}
	}
}

// memberForm is what a server.N line looks like.
const memberForm = "must be HOST:QUORUMPORT:ELECTIONPORT[:participant|observer][;[HOST:]CLIENTPORT]"

// apacheMember reads the value of a server.N line as Apache ZooKeeper does: the addresses of its two ports, several with
// |, and whether it only observes.
func apacheMember(value string) (places []string, observer bool, reason string) {
	sides := strings.Split(strings.TrimRight(value, ";"), ";")
	if len(sides) == 2 { // of the versions that know more, each has a form of its own
		parts := hostParts(sides[1])
		if len(parts) > 2 || !isJavaPort(parts[len(parts)-1]) {
			return nil, false, memberForm
		}
	}
	for address := range strings.SplitSeq(sides[0], "|") {
		parts := hostParts(address)
		if len(parts) < 3 || len(parts) > 4 || !isJavaPort(parts[1]) || !isJavaPort(parts[2]) {
			return nil, false, memberForm
		}
		if len(parts) == 4 {
			role := strings.ToLower(strings.TrimSpace(parts[3]))
			observer = role == "observer"
			if role != "participant" && !observer {
				return nil, false, memberForm
			}
		}
		if parts[1] == parts[2] {
			return nil, false, "the two ports must be different"
		}
		host := strings.ToLower(parts[0])
		places = append(places, net.JoinHostPort(host, parts[1]), net.JoinHostPort(host, parts[2]))
	}
	return places, observer, ""
}

// hostParts splits at colons, but for those in brackets, which are an address of IPv6.
func hostParts(text string) []string {
	text = strings.TrimRight(text, ":") // Java drops empty parts at the end
	if inside, ok := strings.CutPrefix(text, "["); ok {
		host, rest, closed := strings.Cut(inside, "]")
		if !closed {
			return []string{text}
		}
		if rest == "" {
			return []string{host}
		}
		return append([]string{host}, strings.Split(strings.TrimPrefix(rest, ":"), ":")...)
	}
	return strings.Split(text, ":")
}
