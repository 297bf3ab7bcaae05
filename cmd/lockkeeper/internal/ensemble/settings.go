package ensemble

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zoocfg"
)

// A setting is a line of zoo.cfg. One without a key is a comment.
type setting struct{ key, value string }

// unsafe settings have one value that keeps data, and are not to be changed.
var unsafe = map[string]string{"db.autocreate": "false", "snapshot.trust.empty": "false"}

// made settings follow from the members and the format.
var made = []string{"dataDir", "clientPort", "secureClientPort", "clientPortAddress", "secureClientPortAddress", "admin.serverPort", "sslQuorum"}

// numbers are the settings that are written here and have a number, and others that Apache ZooKeeper takes for their default, without
// a word, if it is none.
var numbers = []string{
	"tickTime", "initLimit", "syncLimit", "minSessionTimeout", "maxSessionTimeout", "maxClientCnxns", "autopurge.snapRetainCount", "autopurge.purgeInterval",
	"snapCount", "preAllocSize", "globalOutstandingLimit", "maxCnxns", "commitLogCount",
}

// misread reports whether Java reads something else in zoo.cfg: a backslash at the end of a line swallows the next one.
func misread(c rune) bool { return (c < ' ' && c != '\t') || c > '~' || c == '\\' }

// CheckSet refuses a setting that cannot be, that would be unsafe, or that follows from something else.
func CheckSet(key, value string) error {
	name := strings.TrimPrefix(key, "zookeeper.")
	number, err := strconv.ParseInt(value, 10, 32) // Java's int
	switch safe, ok := unsafe[name]; {
	case key == "" || strings.ContainsAny(key+value, "\n\r"):
		return fmt.Errorf("--set %q: want KEY=VALUE", key+"="+value)
	case slices.Contains(numbers, name) && err != nil:
		return fmt.Errorf("--set %s=%s: want a whole number", key, value)
	case name == "tickTime" && number < 1:
		return fmt.Errorf("--set %s=%s: want milliseconds, 1 or more", key, value)
	case ok && value != safe:
		return fmt.Errorf("--set %s=%s: with it members that have lost their data can take part in elections, and all data may be lost (it stays %s)", key, value, safe)
	case name == "dataLogDir":
		return fmt.Errorf("--set %s: members would lack the directory, share it or lose it, for dataDir alone is made, mounted and copied (have dataDir on a fast disk)", key)
	case slices.Contains(made, name) || strings.HasPrefix(name, "server.") || strings.HasPrefix(name, "ssl.keyStore") || strings.HasPrefix(name, "ssl.trustStore") || strings.HasPrefix(name, "ssl.quorum."):
		return fmt.Errorf("--set %s: follows from the members and the format (name ports as HOST:CLIENTPORT:QUORUMPORT:ELECTIONPORT, directories with --data-dir and --conf-dir)", key)
	case strings.ContainsFunc(key+value, misread) || strings.ContainsAny(key, " \t:") || strings.ContainsAny(key[:1], "#!"):
		return fmt.Errorf("--set %q: Java would read another key or value in zoo.cfg (ASCII without a backslash; in the key no blanks, colons, # and ! either)", key)
	}
	if reason := zoocfg.Refused(name, value); reason != "" {
		return fmt.Errorf("--set %s=%s: %s", key, value, reason)
	}
	return nil
}

// ParseSet splits KEY=VALUE. The key may have the prefix zookeeper., which ZooKeeper itself puts in front of what stands in zoo.cfg; twice
// would have no effect.
func ParseSet(all []string) ([][2]string, error) {
	var pairs [][2]string
	for _, text := range all {
		key, value, ok := strings.Cut(text, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok {
			return nil, fmt.Errorf("--set %q: want KEY=VALUE", text)
		}
		if err := CheckSet(key, value); err != nil {
			return nil, err
		}
		pairs = append(pairs, [2]string{strings.TrimPrefix(key, "zookeeper."), value})
	}
	return pairs, nil
}

const (
	tickDefaultMs = 2000
	minTicks      = 2
	maxTicks      = 20
)

// A place says where a member finds its files when it runs.
type place struct{ data, tls string }

// zooCfg returns zoo.cfg for a member. clientPort is the port for clients, which is another one while an ensemble that has
// grown is being checked.
func (s *Spec) zooCfg(m Member, p place, clientPort int) []byte {
	tick := tickDefaultMs
	for _, kv := range s.Set {
		if kv[0] == "tickTime" {
			tick, _ = strconv.Atoi(kv[1]) // see CheckSet
		}
	}
	comment := func(text string) setting { return setting{"", text} }
	all := []setting{
		comment("Apache ZooKeeper. The server.N lines, tickTime and the session timeouts are the same on all members."),
		{"tickTime", strconv.Itoa(tick)}, {"initLimit", "10"}, {"syncLimit", "5"},
		{"minSessionTimeout", strconv.Itoa(minTicks * tick)}, {"maxSessionTimeout", strconv.Itoa(maxTicks * tick)},
		{"maxClientCnxns", "60"},
		comment("The file myid in this directory holds the member's number."),
		{"dataDir", p.data},
		comment("A member whose data is gone takes part in no election until it has a copy of the others'."),
		{"db.autocreate", "false"}, {"snapshot.trust.empty", "false"},
		comment("Old snapshots and logs are deleted, every 12 hours."),
		{"autopurge.snapRetainCount", "5"}, {"autopurge.purgeInterval", "12"},
		comment("What lockkeeper status and lockkeeper doctor ask."),
		{"4lw.commands.whitelist", "srvr,mntr,conf,ruok,isro"},
		{"admin.serverAddress", localPlaces}, {"admin.serverPort", strconv.Itoa(m.Admin)},
	}
	clients := "clientPort"
	if s.TLS {
		clients = "secureClientPort"
		all = append(all, comment("Clients need TLS and a certificate of the authority in ca.pem."))
	}
	all = append(all, setting{clients, strconv.Itoa(clientPort)})
	if s.together() {
		all = append(all, setting{clients + "Address", localPlaces})
	}
	if s.TLS {
		all = append(all,
			setting{"serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"},
			setting{"ssl.keyStore.location", p.tls + "/server.pem"}, setting{"ssl.keyStore.type", "PEM"},
			setting{"ssl.trustStore.location", p.tls + "/ca.pem"}, setting{"ssl.trustStore.type", "PEM"},
			setting{"ssl.clientAuth", "need"},
			comment("The members have an authority of their own. It has signed nothing else, so names need not be compared:"),
			comment("ZooKeeper would look the names of connecting members up by their addresses, which fails in many networks."),
			setting{"sslQuorum", "true"},
			setting{"ssl.quorum.keyStore.location", p.tls + "/quorum.pem"}, setting{"ssl.quorum.keyStore.type", "PEM"},
			setting{"ssl.quorum.trustStore.location", p.tls + "/quorum-ca.pem"}, setting{"ssl.quorum.trustStore.type", "PEM"},
			setting{"ssl.quorum.hostnameVerification", "false"})
	}
	for _, kv := range s.Set {
		i := slices.IndexFunc(all, func(old setting) bool { return old.key == kv[0] })
		if i < 0 {
			all = append(all, setting{kv[0], kv[1]})
		} else {
			all[i].value = kv[1]
		}
	}
	var b strings.Builder
	for _, kv := range all {
		if kv.key == "" {
			fmt.Fprintf(&b, "# %s\n", kv.value)
		} else {
			fmt.Fprintf(&b, "%s=%s\n", kv.key, kv.value)
		}
	}
	for _, other := range s.Members {
		b.WriteString(other.Line() + "\n")
	}
	return []byte(b.String())
}
