package faultproxy

import (
	"slices"
	"sync"
	"time"
)

// A Rule is a fault in waiting. Rules are claimed by a request as it arrives from the client, in
// the order in which they were added; several may act on the same request.
type Rule struct {
	// Fixed when the rule is made. Each rule has one action.
	proxy     *Proxy
	match     Match
	cutBefore bool
	cutAfter  bool
	park      bool
	hold      time.Duration
	before    func(Request)
	after     func(Request, Reply)

	acted  chan struct{} // closed when the rule first acts
	unpark chan struct{} // closed by Unpark
	once   sync.Once     // closes unpark

	// Guarded by proxy.mu.
	tally tally
}

// CutBefore breaks the connection before a matching request reaches the server. Requests sent
// earlier are still answered: the connection ends when the last of those answers has been
// forwarded, so that the outcome does not depend on who is faster. Requests behind the matching one
// never reach the server.
func (p *Proxy) CutBefore(m Match) *Rule { return p.add(&Rule{match: m, cutBefore: true}) }

// CutAfter breaks the connection when the server's answer to a matching request arrives, without
// forwarding it: the server has done what was asked, the client cannot know. Answers that came
// before it have been forwarded.
func (p *Proxy) CutAfter(m Match) *Rule { return p.add(&Rule{match: m, cutAfter: true}) }

// Hold delays the answer to a matching request by d, and with it all that the server sends on that
// connection afterwards, for nothing overtakes on a stream.
func (p *Proxy) Hold(m Match, d time.Duration) *Rule { return p.add(&Rule{match: m, hold: d}) }

// Park keeps a matching request in the proxy and breaks the client's half of the connection, as soon
// as the answers to what was sent earlier have been forwarded; the server's half stays open and
// knows nothing. Unpark sends the request on, late, as a slow network
// would. The server's half ends when the server closes it, by Cut, or with the proxy.
func (p *Proxy) Park(m Match) *Rule { return p.add(&Rule{match: m, park: true}) }

// Before calls f before a matching request is forwarded. While f runs, nothing else that the client
// sends on this connection is forwarded; what f does must not depend on it.
func (p *Proxy) Before(m Match, f func(Request)) *Rule { return p.add(&Rule{match: m, before: f}) }

// After calls f before the answer to a matching request is forwarded. While f runs, nothing else
// that the server sends on this connection is forwarded; what f does must not depend on it.
func (p *Proxy) After(m Match, f func(Request, Reply)) *Rule {
	return p.add(&Rule{match: m, after: f})
}

// add puts a rule behind those that are there.
func (p *Proxy) add(r *Rule) *Rule {
	r.proxy, r.acted, r.unpark = p, make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.rules = append(p.mu.rules, r)
	return r
}

// Remove takes the rule away: no request that arrives from now on meets it. Requests that have
// claimed it keep their claim.
func (r *Rule) Remove() {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	r.proxy.mu.rules = slices.DeleteFunc(r.proxy.mu.rules, func(o *Rule) bool { return o == r })
}

// Acted is closed when a request first claims the rule, which is when it arrives from the client.
func (r *Rule) Acted() <-chan struct{} { return r.acted }

// Count returns how many requests have claimed the rule.
func (r *Rule) Count() int {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	return r.tally.acted
}

// Unpark sends a parked request on. Requests that the rule meets afterwards are not parked. It may
// be called again without effect.
func (r *Rule) Unpark() { r.once.Do(func() { close(r.unpark) }) }

// claim returns the rules that act on req. Match.Where runs without the lock, so that it may ask
// the proxy questions.
func (p *Proxy) claim(req Request) []*Rule {
	p.mu.Lock()
	rules := slices.Clone(p.mu.rules)
	p.mu.Unlock()
	rules = slices.DeleteFunc(rules, func(r *Rule) bool { return !r.match.matches(req) })

	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(rules, func(r *Rule) bool {
		if !r.tally.take(&r.match) {
			return true
		}
		if r.tally.acted == 1 {
			close(r.acted)
		}
		return false
	})
}
