package server

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// gate limits how fast the clients of one address may come: new sessions, TLS handshakes, and what is refused. An address
// that comes faster waits; it is refused only when it would wait for longer than a handshake may take. An IPv6 address
// stands for its /64, which one customer has to itself.
type gate struct {
	rate, burst float64 // tokens a second, and at most
	patience    time.Duration

	mu      sync.Mutex
	buckets map[string]*bucket
	swept   time.Duration // when they were looked through last
}

// bucket is what an address may still do at once. It is negative while connections wait.
type bucket struct {
	tokens float64
	at     time.Duration // on the server's clock, when tokens was right
}

// What something costs in tokens. A session costs one.
const (
	tlsCost     = 5
	refusedCost = 20 // a wrong first frame or password, credentials that are refused, a TLS handshake that fails
)

const (
	bucketsSwept = 1 << 10     // each time there are so many more, they are looked through for those that are full
	bucketsMax   = 1 << 16     // addresses beyond so many share one bucket
	sweptEvery   = time.Second // how often the buckets are looked through while there are bucketsMax
	debtMax      = 2.0         // seconds; what is refused makes an address wait no longer
)

func newGate(rate int, patience time.Duration) *gate {
	return &gate{rate: float64(rate), burst: float64(rate), patience: patience, buckets: map[string]*bucket{}}
}

// enter takes tokens for address and returns how long it has to wait; ok is false if that is too long, and then nothing
// was taken. The empty address has no limit, nor has any if the rate is negative.
func (g *gate) enter(address string, cost float64, now time.Duration) (wait time.Duration, ok bool) {
	if address == "" || g.rate < 0 {
		return 0, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bucketLocked(address, now)
	wait = g.timeOf(cost - b.tokens)
	if wait > g.patience {
		return 0, false
	}
	b.tokens -= cost
	return wait, true
}

// punish takes tokens for something that was refused.
func (g *gate) punish(address string, now time.Duration) {
	if address == "" || g.rate < 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bucketLocked(address, now)
	b.tokens = max(b.tokens-refusedCost, min(b.tokens, -debtMax*g.rate))
}

// timeOf is how long it takes until so many tokens are there.
func (g *gate) timeOf(tokens float64) time.Duration {
	return time.Duration(max(tokens, 0) / g.rate * float64(time.Second))
}

// bucketLocked returns the bucket of an address, filled up to now.
func (g *gate) bucketLocked(address string, now time.Duration) *bucket {
	b := g.buckets[address]
	if b == nil {
		if n := len(g.buckets); n%bucketsSwept == bucketsSwept-1 || n >= bucketsMax && now-g.swept >= sweptEvery {
			g.sweepLocked(now)
		}
		if len(g.buckets) >= bucketsMax {
			address = "others"
			b = g.buckets[address]
		}
	}
	if b == nil {
		b = &bucket{tokens: g.burst, at: now}
		g.buckets[address] = b
	}
	b.tokens = min(b.tokens+(now-b.at).Seconds()*g.rate, g.burst)
	b.at = now
	return b
}

// sweepLocked forgets the addresses that have been quiet for long enough.
func (g *gate) sweepLocked(now time.Duration) {
	g.swept = now
	for address, b := range g.buckets {
		if b.tokens+(now-b.at).Seconds()*g.rate >= g.burst {
			delete(g.buckets, address)
		}
	}
}

// addressOf is what connections are counted by: the address, and of IPv6 the /64 it is in. Connections over Unix sockets
// are not counted.
func addressOf(remote net.Addr) string {
	if _, unix := remote.(*net.UnixAddr); unix {
		return ""
	}
	host := hostOf(remote)
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return addr.String()
	}
	network, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}

// wait keeps the connection until its address may do what costs so much. It reports false if the connection is to be
// closed.
func (c *conn) wait(cost float64) bool {
	s := c.s
	wait, ok := s.gate.enter(c.address, cost, s.now())
	if !ok {
		s.logFlood(c.nc, "new sessions from its address come too fast")
		return false
	}
	if wait == 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ending:
		return false
	}
}

// logFlood says that a connection is refused.
func (s *Server) logFlood(nc net.Conn, why string) {
	s.counters.rejected.Add(1)
	if unsaid, ok := s.floodLog.due(s.now()); ok {
		s.log.Warn("connection refused", "remote", nc.RemoteAddr().String(), "why", why, "unsaid", unsaid)
	}
}

// isCrowded reports whether an address has its share of the connections, when few places are left. So one address cannot
// take the places of all others. Server.conns is locked.
func (s *Server) isCrowded(address string) bool {
	places := s.opts.ConnectionsMax
	if places <= 0 {
		places = s.places
	}
	open := len(s.conns.byID)
	return address != "" && places > 0 && open >= places-places/placesKept && s.conns.perAddress[address] >= max(places/placesShare, 1)
}

const (
	placesKept  = 4  // a quarter of the places is kept for addresses that have few
	placesShare = 16 // of the places is what an address may have while less than that is left
)
