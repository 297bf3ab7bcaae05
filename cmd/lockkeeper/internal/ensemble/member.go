package ensemble

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// The ports that ZooKeeper's own documents use, and the least and the most a member's number may be.
const (
	clientPortDefault   = 2181
	securePortDefault   = 2281
	quorumPortDefault   = 2888
	electionPortDefault = 3888
	adminPortDefault    = 8080

	idMax       = 255
	membersMin  = 3
	hostLenMax  = 253
	portMax     = 65535
	localPlaces = "127.0.0.1"
)

// A Member is one server of an ensemble.
type Member struct {
	ID       int    `json:"id"`
	Host     string `json:"host"` // as the others and the clients reach it
	Client   int    `json:"client_port"`
	Quorum   int    `json:"quorum_port"`
	Election int    `json:"election_port"`
	Admin    int    `json:"admin_port"` // on the loopback address
}

// Folder is the name of the member's directory.
func (m Member) Folder() string { return fmt.Sprintf("member%d", m.ID) }

// Line is the member's line in zoo.cfg.
func (m Member) Line() string {
	host := m.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("server.%d=%s:%d:%d", m.ID, host, m.Quorum, m.Election)
}

// Address is where clients reach the member.
func (m Member) Address() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.Client)) }

// ParseMembers reads members, for one machine or for one each: [ID=]HOST[:CLIENTPORT[:QUORUMPORT:ELECTIONPORT]]. A member without a number has that of its
// place in the list.
func ParseMembers(args []string, clientPort int, together bool) ([]Member, error) {
	var all []Member
	for i, arg := range args {
		m, err := parseMember(arg, i+1, clientPort)
		if err != nil {
			return nil, fmt.Errorf("member %q: %w", arg, err)
		}
		if together {
			m.Admin += i
		}
		all = append(all, m)
	}
	return all, nil
}

func parseMember(arg string, id, clientPort int) (Member, error) {
	m := Member{ID: id, Client: clientPort, Quorum: quorumPortDefault, Election: electionPortDefault, Admin: adminPortDefault}
	rest := arg
	if number, host, ok := strings.Cut(arg, "="); ok {
		n, err := strconv.Atoi(strings.TrimPrefix(number, "server."))
		if err != nil {
			return m, fmt.Errorf("%q is no number of a member (want ID=HOST, with an ID from 1 to %d)", number, idMax)
		}
		m.ID, rest = n, host
	}
	host, ports := rest, ""
	if inside, ok := strings.CutPrefix(rest, "["); ok { // an IPv6 address
		var closed bool
		host, ports, closed = strings.Cut(inside, "]")
		if !closed {
			return m, errors.New("the address lacks its ]")
		}
		ports = strings.TrimPrefix(ports, ":")
	} else if _, err := netip.ParseAddr(rest); err != nil { // one without brackets has no ports
		host, ports, _ = strings.Cut(rest, ":")
	}
	m.Host = host
	if ports == "" {
		return m, nil
	}
	fields := []*int{&m.Client, &m.Quorum, &m.Election}
	given := strings.Split(ports, ":")
	if len(given) != 1 && len(given) != len(fields) {
		return m, fmt.Errorf("has %d ports (want HOST, HOST:CLIENTPORT or HOST:CLIENTPORT:QUORUMPORT:ELECTIONPORT)", len(given))
	}
	for i, text := range given {
		n, err := strconv.Atoi(text)
		if err != nil {
			return m, fmt.Errorf("%q is no port", text)
		}
		*fields[i] = n
	}
	return m, nil
}

// LocalMembers returns n members on this machine, each with ports of its own.
func LocalMembers(n, clientPort int) []Member {
	var all []Member
	for i := range n {
		all = append(all, Member{ID: i + 1, Host: localPlaces, Client: clientPort + i, Quorum: quorumPortDefault + i, Election: electionPortDefault + i, Admin: adminPortDefault + i})
	}
	return all
}

// checkMembers refuses members that cannot form an ensemble. together says that all are on one machine.
func checkMembers(all []Member, together bool) error {
	switch n := len(all); {
	case n < membersMin:
		return fmt.Errorf("%d members: an ensemble that goes on without one of them has at least %d", n, membersMin)
	case n%2 == 0:
		return fmt.Errorf("%d members: %d go on without %d of them, and so do %d (name one more or one less)", n, n, (n-1)/2, n-1)
	}
	ids, ports, hosts := map[int]string{}, map[string]string{}, map[string]int{}
	for _, m := range all {
		if m.ID < 1 || m.ID > idMax {
			return fmt.Errorf("member %d: %s: the number is not from 1 to %d", m.ID, m.Host, idMax)
		}
		if other, ok := ids[m.ID]; ok {
			return fmt.Errorf("member %d: %s and %s have the same number", m.ID, other, m.Host)
		}
		ids[m.ID] = m.Host
		if err := checkHost(m.Host, together); err != nil {
			return fmt.Errorf("member %d: %w", m.ID, err)
		}
		if other, ok := hosts[strings.ToLower(m.Host)]; ok && !together { // they would have one data directory, one unit and one admin port
			return fmt.Errorf("members %d and %d are both on %s: want a host for each (for members on one machine use --format local)", other, m.ID, m.Host)
		}
		hosts[strings.ToLower(m.Host)] = m.ID
		own := []struct {
			name string
			port int
		}{{"client port", m.Client}, {"quorum port", m.Quorum}, {"election port", m.Election}}
		if together {
			own = append(own, struct {
				name string
				port int
			}{"admin port", m.Admin})
		}
		for _, p := range own {
			if p.port < 1 || p.port > portMax {
				return fmt.Errorf("member %d: %s: the %s %d is not from 1 to %d", m.ID, m.Host, p.name, p.port, portMax)
			}
			use := fmt.Sprintf("the %s of member %d", p.name, m.ID)
			address := net.JoinHostPort(strings.ToLower(m.Host), strconv.Itoa(p.port))
			if other, ok := ports[address]; ok {
				return fmt.Errorf("%s is %s and %s (name others: HOST:CLIENTPORT:QUORUMPORT:ELECTIONPORT)", address, other, use)
			}
			ports[address] = use
		}
	}
	return nil
}

// checkHost refuses what is no name or address of a host.
func checkHost(host string, together bool) error {
	if host == "" || len(host) > hostLenMax {
		return fmt.Errorf("a host is missing, or its name is longer than %d bytes", hostLenMax)
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		for _, c := range host {
			if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", c) {
				return fmt.Errorf("%q is no name of a host", host)
			}
		}
	}
	if loopback := err == nil && address.IsLoopback() || strings.EqualFold(host, "localhost"); loopback && !together {
		return fmt.Errorf("%s is each machine itself (name the machine as the others reach it; for members on one machine use --format local)", host)
	}
	return nil
}
