// Package gather collects what package doctor judges: network.go and adminport.go ask servers, machine.go and jvm.go read
// files of the machine. It changes nothing.
package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
)

const (
	wordTimeout     = 5 * time.Second // for each word
	resolveTimeout  = 3 * time.Second
	serversAtOnce   = 16
	clientPort      = "2181"
	statusWord      = "srvr"
	monitorWord     = "mntr"
	configWord      = "conf"
	chrootSeparator = "/"
)

// A Dialer opens connections.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Network asks servers.
type Network struct {
	Dial       Dialer   // to the ports for clients
	DialAdmin  Dialer   // to the admin ports
	AdminPorts []string // one for all servers, or one for each in their order; none asks no admin port

	Resolve func(ctx context.Context, host string) ([]string, error)

	Timeout time.Duration // for each word of a server; 0 is wordTimeout, and more is no longer
}

// Place returns the network and the address of a server in a list.
func Place(name string) (network, address string) {
	if path, ok := strings.CutPrefix(name, "unix:"); ok {
		return "unix", path
	}
	address, _, _ = strings.Cut(name, chrootSeparator)
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), clientPort)
	}
	return "tcp", address
}

// Servers asks all servers at the same time.
func (n *Network) Servers(ctx context.Context, names []string) []doctor.Server {
	all := make([]doctor.Server, len(names))
	room := make(chan struct{}, serversAtOnce)
	var wg sync.WaitGroup
	for i, name := range names {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			all[i] = n.server(ctx, strings.TrimSpace(name), n.adminPort(i))
		})
	}
	wg.Wait()
	return all
}

func (n *Network) adminPort(i int) string {
	switch len(n.AdminPorts) {
	case 0:
		return ""
	case 1:
		return n.AdminPorts[0]
	}
	return n.AdminPorts[i]
}

// server asks one.
func (n *Network) server(ctx context.Context, name, adminPort string) doctor.Server {
	s := doctor.Server{Name: name}
	network, address := Place(name)
	if network == "tcp" {
		s.Address = address
	}
	asking, done := limited(ctx, n.timeout())
	status, err := fourletter.Ask(asking, n.Dial, network, address)
	done()
	switch {
	case err == nil:
		s.Status = &status
		s.Monitor = n.word(ctx, network, address, monitorWord, "\t")
		s.Config = n.word(ctx, network, address, configWord, "=")
	case errors.Is(err, fourletter.ErrNotServing), errors.Is(err, fourletter.ErrRefused):
		s.Err = err
	default:
		s.Err = err
		return s
	}
	if network == "tcp" && adminPort != "" {
		n.askAdmin(ctx, &s, adminPort)
	}
	return s
}

func (n *Network) timeout() time.Duration { return min(cmp.Or(n.Timeout, wordTimeout), wordTimeout) }

func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
}

// word returns the pairs of names and values that a word is answered with; nil if it is refused.
func (n *Network) word(ctx context.Context, network, address, word, separator string) map[string]string {
	ctx, done := limited(ctx, n.timeout())
	defer done()
	text, err := fourletter.Word(ctx, n.Dial, network, address, word)
	if err != nil {
		return nil
	}
	return Pairs(text, separator)
}

// Pairs reads lines of a name and a value.
func Pairs(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			all[name] = value
		}
	}
	return all
}

// Addresses looks up the hosts of servers and members. Names that cannot be resolved are left out.
func (n *Network) Addresses(ctx context.Context, servers []doctor.Server, members []doctor.Member) map[string][]string {
	hosts := map[string]bool{}
	add := func(address string) {
		if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host) == nil {
			hosts[host] = true
		}
	}
	for _, s := range servers {
		add(s.Address)
	}
	for _, m := range members {
		add(m.Client)
		for _, host := range m.Hosts() {
			add(net.JoinHostPort(host, clientPort))
		}
	}
	ctx, done := limited(ctx, resolveTimeout)
	defer done()
	found := map[string][]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for host := range hosts {
		wg.Go(func() {
			if all, err := n.Resolve(ctx, host); err == nil {
				mu.Lock()
				defer mu.Unlock()
				found[host] = all
			}
		})
	}
	wg.Wait()
	return found
}
