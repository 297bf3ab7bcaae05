package memnet

import "time"

// A Direction is one or both of the ways on a link.
type Direction uint8

// The directions.
const (
	ToServer Direction = 1 << iota // from the one that dialled
	ToClient                       // from the one that accepted
	Both     = ToServer | ToClient
)

type linkKey struct{ client, addr string }

// faults is what is wrong on the way between a client and an address.
type faults struct {
	latency time.Duration
	mute    Direction
	lose    Direction
	refuse  bool
}

// stopped reports whether a connection cannot be set up: that takes both directions.
func (f faults) stopped() bool { return f.mute|f.lose != 0 }

// A Link is the way between the clients with one label and one address, for the connections that
// exist and for those to come. Where several links match a connection (a label or address of ""
// matches all), latencies add up, and it suffers all their faults.
type Link struct {
	n *Network
	linkKey
	faults // guarded by n.mu
}

// Link returns the link between the clients labelled client and the listener called addr; "" is
// any client, any address. The same arguments give the same link.
func (n *Network) Link(client, addr string) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := linkKey{client, addr}
	l := n.links[key]
	if l == nil {
		l = &Link{n: n, linkKey: key}
		n.links[key] = l
	}
	return l
}

// Latency makes every byte written from now on take d, and connecting 2d. Order is kept.
func (l *Link) Latency(d time.Duration) { l.change(func(f *faults) { f.latency = d }) }

// Mute stops the bytes that go in direction d. They are not lost, and neither side is told: the sender
// writes until the buffer is full. Connecting hangs.
func (l *Link) Mute(d Direction) { l.change(func(f *faults) { f.mute |= d }) }

// Unmute lets go what Mute stopped.
func (l *Link) Unmute(d Direction) { l.change(func(f *faults) { f.mute &^= d }) }

// Lose makes what is written in direction d from now on vanish, the end of the stream included,
// while the sender believes it was sent. Connecting hangs.
func (l *Link) Lose(d Direction) { l.change(func(f *faults) { f.lose |= d }) }

// Refuse makes connecting fail at once. Connections that exist are not touched.
func (l *Link) Refuse() { l.change(func(f *faults) { f.refuse = true }) }

// Heal ends the faults of this link. What was lost or cut stays so.
func (l *Link) Heal() { l.change(func(f *faults) { *f = faults{} }) }

func (l *Link) change(edit func(*faults)) {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	edit(&l.faults)
	for _, c := range l.n.conns {
		if l.matches(c.client, string(c.server)) {
			c.setFaults(l.n.faultsLocked(c.client, string(c.server)))
		}
	}
	l.n.cond.Broadcast()
}

func (l *Link) matches(client, addr string) bool {
	return (l.client == "" || l.client == client) && (l.addr == "" || l.addr == addr)
}

// Cut breaks the link's connections, as Conn.Cut does, and returns how many there were.
func (l *Link) Cut() int {
	l.n.mu.Lock()
	var hit []*Conn
	for _, c := range l.n.conns {
		if l.matches(c.client, string(c.server)) {
			hit = append(hit, c)
		}
	}
	l.n.mu.Unlock()
	for _, c := range hit {
		c.Cut()
	}
	return len(hit)
}

// Freeze stops all traffic of a client in both directions, as if its process were suspended or its
// cable pulled. It mutes the client's links to all others.
func (n *Network) Freeze(client string) { n.Link(client, "").Mute(Both) }

// Thaw ends Freeze.
func (n *Network) Thaw(client string) { n.Link(client, "").Unmute(Both) }

// faultsLocked adds up the faults of all links that match.
func (n *Network) faultsLocked(client, addr string) (sum faults) {
	for _, l := range n.links {
		if l.matches(client, addr) {
			sum.latency += l.latency
			sum.mute |= l.mute
			sum.lose |= l.lose
			sum.refuse = sum.refuse || l.refuse
		}
	}
	return sum
}
