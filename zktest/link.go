package zktest

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A Link is the way between a client and the server: one for each client that a test wants to break
// something for. Its faults concern all connections made through it, those to come included.
type Link struct {
	// Fixed by newLink.
	s     *Server
	label string
	proxy *faultproxy.Proxy

	tcp struct {
		sync.Mutex
		addr string // "" until it is asked for
	}
}

// defaultLabel is the label of the link that Server.Dial and Server.Addr use.
const defaultLabel = "default"

// Link returns the link with this label, "" being "default". The same label gives the same link.
func (s *Server) Link(label string) *Link {
	if label == "" {
		label = defaultLabel
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.links[label]
	if l == nil {
		l = newLink(s, label)
		s.mu.links[label] = l
		if s.mu.closed {
			l.proxy.Close()
		}
	}
	return l
}

func newLink(s *Server, label string) *Link {
	l := &Link{s: s, label: label}
	l.proxy = faultproxy.New(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return s.network.DialAs(ctx, label, address)
	})
	handshakes := faultproxy.Match{Ops: []wire.Op{wire.OpCreateSession}, Times: faultproxy.Always}
	l.proxy.After(handshakes, func(_ faultproxy.Request, reply faultproxy.Reply) { l.greeted(reply.Body) })
	return l
}

// greeted notes which session a connection has, before the client learns it.
func (l *Link) greeted(answer []byte) {
	var r wire.ConnectResponse
	if wire.Unmarshal(answer, &r) != nil || r.SessionID == 0 {
		return
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.mu.labels[r.SessionID] = l.label
}

// Dial connects to the server in memory, whatever the network and address. It has the shape of
// net.Dialer.DialContext: give it to client.Options.Dial.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.proxy.Dial(ctx, network, address)
}

// Addr returns a TCP address, host:port on the loopback interface, at which clients reach the server
// through this link. The first call begins to listen, on a port that is free. The address stays the
// same until Close, while the server is down too. It panics if the machine gives no port or the server
// has been closed.
//
// Sockets know no virtual time: this is not for testing/synctest bubbles.
func (l *Link) Addr() string {
	l.tcp.Lock()
	defer l.tcp.Unlock()
	if l.tcp.addr == "" {
		addr, err := l.proxy.Listen("mem", address)
		if err != nil {
			panic(fmt.Sprintf("zktest: listen on a port of the loopback interface: %v", err))
		}
		l.tcp.addr = addr
	}
	return l.tcp.addr
}

// Open opens a session through the link. Of opt, Dial is the link's to set. Heartbeats are
// measured by package time alone, as virtual time asks for. The caller closes the session.
func (l *Link) Open(ctx context.Context, opt client.Options) (*client.Session, error) {
	opt.Dial = l.Dial
	return client.Open(ctx, Servers, clock.With(opt, &clock.Clock{}))
}

// Cut breaks the connections that there are. Clients may connect again at once.
func (l *Link) Cut() { l.proxy.CutAll() }

// Refuse breaks the connections that there are and refuses new ones, until Heal.
func (l *Link) Refuse() {
	way := l.s.network.Link(l.label, address)
	way.Refuse()
	way.Cut()
	l.proxy.CutAll()
}

// Freeze stops everything that travels in either direction, until Heal. Neither side is told and nothing is
// lost: what was sent arrives after Heal. To the server it is as if the client's process were
// suspended, to the client as if the server's were, or the cable had been pulled.
func (l *Link) Freeze() { l.proxy.SetFlows(faultproxy.Stall) }

// Heal ends Freeze and Refuse.
func (l *Link) Heal() {
	l.s.network.Link(l.label, address).Heal()
	l.proxy.SetFlows(faultproxy.Pass)
}

// LoseAnswer makes the next write that a client sends through the link an unknown: the server carries
// it out, and the connection breaks when the answer arrives. Writes are requests that change the tree
// and every multi, heartbeats of client.VouchWrite included; opening and closing sessions is none.
func (l *Link) LoseAnswer() {
	l.proxy.CutAfter(faultproxy.Match{Ops: writes})
}

var writes = append(faultproxy.Creates(), wire.OpDelete, wire.OpSetData, wire.OpSetACL, wire.OpMulti)

// Expire ends the sessions of the link's clients as Server.Expire does, and returns how many there
// were. A session belongs to the link that its client last connected through.
func (l *Link) Expire() int {
	var ids []int64
	l.s.mu.Lock()
	for id, label := range l.s.mu.labels {
		if label == l.label {
			ids = append(ids, id)
		}
	}
	l.s.mu.Unlock()
	n := 0
	for _, id := range ids {
		if l.s.Expire(id) {
			n++
		}
	}
	return n
}
