package doctor

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An Ensemble is all that is known over the network.
type Ensemble struct {
	Servers   []Server
	Members   []Member            // of /zookeeper/config; nil if not known
	RootACL   []zk.ACL            // nil if not known
	ConfigACL []zk.ACL            // of /zookeeper/config; nil if not known
	TLS       bool                // the connections are encrypted
	Addresses map[string][]string // IP addresses of the hosts of servers and members, as far as they are known
	Tree      *Tree               // nil if the tree was not walked

	SessionErr error // why a session with the servers that answer came to nothing
}

// A Server is what a server has said.
type Server struct {
	Name       string
	Address    string             // host:port; empty for a socket
	Status     *fourletter.Status // nil if it did not answer
	Err        error              // why not
	Monitor    map[string]string  // as mntr has it; nil if it is not known
	Config     map[string]string  // as conf has it, with its server.N lines; nil if it is not known
	VotersOnly bool               // Config has no observers: the admin port does not tell them
	Properties map[string]string  // of the JVM; nil if they are not known
	Admin      AdminPort
}

// An AdminPort is what the HTTP port of a server has come to.
type AdminPort struct {
	URL    string // empty if it was not asked
	Err    error  // why it did not answer as an admin port does
	Remote bool   // it has answered at an address that is not a loopback one
}

// answers reports whether there is an admin port.
func (a AdminPort) answers() bool { return a.URL != "" && a.Err == nil }

// A Tree is what a walk of the tree has found.
type Tree struct {
	Root    string // where the walk began
	Znodes  int    // that were seen
	Stopped string // why the walk ended early; empty if it did not
	Largest []Znode
	Widest  []Znode
	Skipped []string // not listed, because they have too many children
}

// A Znode is one that is large or wide.
type Znode struct {
	Path            string
	Bytes, Children int
}

// A Member is a server.N line.
type Member struct {
	ID       string
	Servers  string // host:quorum:election, several with |
	Observer bool
	Client   string // host:port for clients; empty if the line does not say
	Grouped  bool   // quorums go by groups and weights, and not by the number of members
}

// ParseMember reads a server.N line: host:quorum:election[:role][;[host:]port].
func ParseMember(key, value string) Member {
	m := Member{ID: strings.TrimPrefix(key, "server.")}
	servers, client, _ := strings.Cut(strings.TrimSpace(value), ";")
	client, _, _ = strings.Cut(client, ";") // the secure one
	places := strings.Split(servers, "|")
	for i, place := range places {
		last := strings.LastIndexByte(place, ':') + 1
		switch role := strings.ToLower(strings.TrimSpace(place[last:])); role { // in capitals, too, as Apache ZooKeeper takes it
		case "observer", "participant":
			places[i], m.Observer = place[:max(0, last-1)], role == "observer"
		}
	}
	slices.Sort(places)
	m.Servers = strings.Join(places, "|")
	if client == "" {
		return m
	}
	host, port, err := net.SplitHostPort(client)
	if err != nil {
		host, port = "", client
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = m.Hosts()[0]
	}
	m.Client = net.JoinHostPort(host, port)
	return m
}

// String is the line without what concerns clients, which a server may know of itself alone.
func (m Member) String() string {
	role := ""
	if m.Observer {
		role = ":observer"
	}
	return "server." + m.ID + "=" + m.Servers + role
}

// Hosts returns the hosts at which the member has its ports for the others.
func (m Member) Hosts() (all []string) {
	for address := range strings.SplitSeq(m.Servers, "|") {
		if inside, ok := strings.CutPrefix(address, "["); ok {
			address, _, _ = strings.Cut(inside, "]")
		} else {
			address, _, _ = strings.Cut(address, ":")
		}
		all = append(all, address)
	}
	return all
}

// MembersOf returns the members in settings, by number.
func MembersOf(settings map[string]string) (all []Member) {
	grouped := false
	for key := range settings {
		grouped = grouped || strings.HasPrefix(key, "group") || strings.HasPrefix(key, "weight")
	}
	for key, value := range settings {
		if id, ok := strings.CutPrefix(key, "server."); ok {
			if _, err := strconv.Atoi(id); err == nil {
				m := ParseMember(key, value)
				m.Grouped = grouped
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(a, b Member) int {
		i, _ := strconv.Atoi(a.ID)
		j, _ := strconv.Atoi(b.ID)
		return i - j
	})
	return all
}

// voters returns the members that vote.
func voters(all []Member) []Member {
	return slices.DeleteFunc(slices.Clone(all), func(m Member) bool { return m.Observer })
}

// lines returns members as text.
func lines(all []Member) string {
	var text []string
	for _, m := range all {
		text = append(text, m.String())
	}
	return strings.Join(text, " ")
}

// A Machine is what is known of the machine of a member, by its configuration file.
type Machine struct {
	Config   string            // path of zoo.cfg
	Settings map[string]string // with those of the dynamic file; for a server of ours without the prefix of properties
	Faults   []Fault           // settings with which Apache ZooKeeper does not start or cannot work
	Unread   []error           // why files cannot be read that the configuration names
	DataDir  Dir
	LogDir   Dir // the same as DataDir without dataLogDir
	MyID     string
	MyIDErr  error
	Flags    []Flag // options of the JVM, in their order
	Process  *Process

	MemoryBytes   int64 // of the machine or of the container, the lesser; 0 if not known
	SwapBytes     int64
	SwapUsedBytes int64
	Swappiness    int // -1 if not known
}

// A Fault is a setting that cannot be as it is, and why.
type Fault struct{ Text, Where string }

// A Dir is a directory of the server.
type Dir struct {
	Path   string // empty if none is set
	Err    error  // why it cannot be looked at
	Device uint64 // that has it
}

// A Flag is an option of the JVM.
type Flag struct{ Text, Where string }

// A Process is a server that runs with the configuration file.
type Process struct {
	PID          int
	Ours         bool  // it is lockkeeper server
	SwappedBytes int64 // of its memory
}
