package chaos

import (
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/netns"
)

const (
	tick           = 200 * time.Millisecond
	sessionTimeout = 3 * time.Second
	serversCount   = 3
	clientsCount   = 4
)

// ensembleConfig lets a leader and its followers notice each other's silence within a third of the session
// timeout: then no sync of a leader that is cut off reaches into a time in which another one has
// expired the session; see docs/guarantees.md.
var ensembleConfig = map[string]string{"syncLimit": "5", "cnxTimeout": "1000"}

// A rig is servers and hosts for clients, and what can be done to the network between them.
type rig interface {
	ensemble() *apache.Ensemble
	clientHosts() []host
	registerHost() string
	faults() []fault
	// partition lets servers and clients talk only to those of their group. Servers and clients are
	// meant by their places in the ensemble and among the hosts; those in no group are alone.
	partition(groups ...group)
	// vanish loses what clients send to servers[server], or what they are answered.
	vanish(server int, requests bool)
	// mute loses what a server says to the others, or what they say to it.
	mute(server int, hears bool)
	lose(percent int)
	slow(d time.Duration)
	heal()
}

// A group is servers and clients that can reach each other.
type group struct{ servers, clients []int }

// A proxyRig has everything on the loopback address.
type proxyRig struct {
	e       *apache.Ensemble
	clients func() []*process // that live
}

func newProxyRig(t testing.TB, clients func() []*process, config map[string]string) *proxyRig {
	return &proxyRig{apache.StartEnsemble(t, serversCount, apache.Options{Tick: tick, Config: config}), clients}
}

func (r *proxyRig) ensemble() *apache.Ensemble { return r.e }
func (r *proxyRig) registerHost() string       { return "127.0.0.1" }
func (r *proxyRig) faults() []fault            { return anyRig }

func (r *proxyRig) clientHosts() []host { return proxyHosts(clientsCount) }

// proxyHosts returns the machine, n times.
func proxyHosts(n int) []host {
	hosts := make([]host, n)
	for i := range hosts {
		hosts[i] = host{i, exec.Command}
	}
	return hosts
}

func (r *proxyRig) partition(groups ...group) {
	together := func(server int, in func(g group) bool) bool {
		return slices.ContainsFunc(groups, func(g group) bool { return slices.Contains(g.servers, server) && in(g) })
	}
	for i, s := range r.e.Servers {
		for j, other := range r.e.Servers[:i] {
			if !together(i, func(g group) bool { return slices.Contains(g.servers, j) }) {
				r.e.CutOff(s, other)
			}
		}
		for _, c := range r.clients() {
			if !together(i, func(g group) bool { return slices.Contains(g.clients, c.host.number) }) {
				c.tell("flow %s all", s.Addr())
			}
		}
	}
}

func (r *proxyRig) vanish(server int, requests bool) {
	for _, c := range r.clients() {
		if requests {
			c.tell("flow %s requests", r.e.Servers[server].Addr())
		} else {
			c.tell("flow %s answers", r.e.Servers[server].Addr())
		}
	}
}

func (r *proxyRig) mute(int, bool) { panic("links know no direction") }
func (r *proxyRig) lose(int)       { panic("a stream loses nothing") }

func (r *proxyRig) slow(d time.Duration) {
	for _, c := range r.clients() {
		c.tell("delay %v", d)
	}
}

func (r *proxyRig) heal() {
	r.e.HealAll()
	for _, c := range r.clients() {
		for _, s := range r.e.Servers {
			c.tell("flow %s pass", s.Addr())
		}
		c.tell("delay 0s")
	}
}

// A netRig has every server and every client on a host of its own.
type netRig struct {
	t       testing.TB
	e       *apache.Ensemble
	net     *netns.Network
	servers []netns.Host
	hosts   []netns.Host // of clients
	clients func() []*process
	slowed  bool // by netem
}

func newNetRig(t testing.TB, n *netns.Network, clients func() []*process, config map[string]string) *netRig {
	r := &netRig{t: t, net: n, clients: clients}
	var places []apache.Place
	for range serversCount {
		h := r.host()
		r.servers = append(r.servers, h)
		places = append(places, apache.Place{Host: h.Addr, Command: h.Command})
	}
	for range clientsCount {
		r.hosts = append(r.hosts, r.host())
	}
	r.e = apache.StartEnsemble(t, serversCount, apache.Options{Tick: tick, Config: config, Places: places})
	return r
}

func (r *netRig) host() netns.Host {
	h, err := r.net.Host()
	if err != nil {
		r.t.Fatalf("host: %v", err)
	}
	return h
}

func (r *netRig) ensemble() *apache.Ensemble { return r.e }
func (r *netRig) registerHost() string       { return r.net.Hub() }
func (r *netRig) faults() []fault            { return slices.Concat(anyRig, packetsOnly) }

func (r *netRig) clientHosts() []host {
	hosts := make([]host, len(r.hosts))
	for i, h := range r.hosts {
		hosts[i] = host{i, h.Command}
	}
	return hosts
}

// all returns all hosts, the servers first.
func (r *netRig) all() []netns.Host { return slices.Concat(r.servers, r.hosts) }

// loseAll loses all packets of each pair of different hosts for which lost holds; they are told by
// their places in all.
func (r *netRig) loseAll(percent int, lost func(from, to int) bool) {
	r.t.Helper()
	var losses []netns.Loss
	for i, from := range r.all() {
		for j, to := range r.all() {
			if i != j && lost(i, j) {
				losses = append(losses, netns.Loss{From: from, To: to, Percent: percent})
			}
		}
	}
	if err := r.net.Lose(losses...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *netRig) partition(groups ...group) {
	of := make([]int, len(r.all())) // group of each host, from 1
	for g, members := range groups {
		for _, s := range members.servers {
			of[s] = g + 1
		}
		for _, c := range members.clients {
			of[len(r.servers)+c] = g + 1
		}
	}
	r.loseAll(100, func(from, to int) bool { return of[from] == 0 || of[from] != of[to] })
}

func (r *netRig) isClient(i int) bool { return i >= len(r.servers) }

func (r *netRig) vanish(server int, requests bool) {
	r.loseAll(100, func(from, to int) bool {
		if requests {
			return to == server && r.isClient(from)
		}
		return from == server && r.isClient(to)
	})
}

func (r *netRig) mute(server int, hears bool) {
	r.loseAll(100, func(from, to int) bool {
		if hears {
			return from == server && !r.isClient(to)
		}
		return to == server && !r.isClient(from)
	})
}

func (r *netRig) lose(percent int) {
	r.loseAll(percent, func(int, int) bool { return true })
}

// slow delays packets, if the kernel can, and otherwise answers.
func (r *netRig) slow(d time.Duration) {
	for _, h := range r.all() {
		err := r.net.Delay(h, int(d.Milliseconds()))
		if errors.Is(err, netns.ErrNoNetem) {
			for _, c := range r.clients() {
				c.tell("delay %v", d)
			}
			return
		}
		if err != nil {
			r.t.Fatal(err)
		}
		r.slowed = true
	}
}

func (r *netRig) heal() {
	if err := r.net.Lose(); err != nil {
		r.t.Fatal(err)
	}
	if r.slowed {
		for _, h := range r.all() {
			if err := r.net.Delay(h, 0); err != nil {
				r.t.Fatal(err)
			}
		}
		r.slowed = false
	}
	for _, c := range r.clients() {
		c.tell("delay 0s")
	}
}
